"""A page of HTML, taken apart; whatever is not well formed, or asks for something outside the page, fails."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any


class Parsed(HTMLParser):
    """Tags, tables (rows of texts), scripts that run and data that scripts read."""

    VOID = {"meta", "br", "input"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.scripts: list[str] = []
        self.data: list[Any] = []
        self.library = ""
        self._kind: str | None = None
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"
        self._assert_alone(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "script":
            self._kind = dict(attrs).get("type")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        elif self.open and self.open[-1] == "script":
            if self._kind == "application/json":
                self.data.append(json.loads(data))
            elif self._kind == "text/plain":
                self.library = gzip.decompress(base64.b64decode(data, validate=True)).decode()
            else:
                assert self._kind is None
                self.scripts.append(data)

    def panels(self) -> list[dict[str, Any]]:
        """The panels of all charts."""
        return [panel for chart in self.data if isinstance(chart, list) for panel in chart]

    def _assert_alone(self, text: str) -> None:
        """The policy lets nothing in from anywhere, and names each script that runs; no attribute points outside."""
        metas = [attributes for tag, attributes in self.tags if tag == "meta"]
        policy = next(meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy")
        rules = {name: values for name, *values in (rule.split() for rule in (policy or "").split(";"))}
        assert rules["default-src"] == ["'none'"] and "connect-src" not in rules
        assert all(value in ("'none'", "'unsafe-inline'", "data:", "blob:") for name, values in rules.items()
                   if name != "script-src" for value in values)  # fmt: skip
        run = [*self.scripts, *([self.library] if self.library else [])]
        hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in run}
        assert set(rules["script-src"]) == (hashes or {"'none'"})
        for tag, attributes in self.tags:
            assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
            for name, value in attributes.items():
                assert name not in ("src", "srcset", "action", "background") and not name.startswith("on")
                assert name != "href" or (value or "").startswith("#")
        style = "".join(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
        assert "@import" not in style and "url(" not in style
