"use strict";
/* The block pool after each step: blocks in the colours of who holds them, block tables, and what the step did. */
(function () {
  const DATA = JSON.parse(document.getElementById("pool-data").textContent);
  const { frames, block_size: SIZE, num_blocks: BLOCKS, num_host_blocks: HOST, caches: CACHES } = DATA;
  const at = (id) => document.getElementById(id);
  const names = [...new Set(frames.flatMap((f) => [...f.admitted, ...Object.keys(f.holders), ...f.waiting, ...f.finished]))];
  const hue = new Map(names.map((name, index) => [name, (205 + 137.5 * index) % 360]));
  let now = 0, timer = null;

  function colour(name) { return `hsl(${hue.get(name) ?? 0} 70% 64%)`; }
  function plural(count, word) { return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`; }
  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function chip(name) {
    const made = element("span", "chip", name);
    made.style.background = colour(name);
    return made;
  }

  /* --- what is where after a step */

  function owners(frame) { // block -> [{name, tokens in it}]
    const held = new Map();
    for (const [name, holder] of Object.entries(frame.holders)) {
      holder.table.forEach((block, index) => {
        if (block === null) return;
        const tokens = Math.max(0, Math.min(SIZE, holder.computed - index * SIZE));
        held.set(block, [...(held.get(block) || []), { name, tokens }]);
      });
    }
    return held;
  }
  function hosted(frame) { // host block -> {name, tokens}
    const held = new Map();
    for (const [name, holder] of Object.entries(frame.holders)) {
      for (const [index, block] of Object.entries(holder.host)) {
        held.set(block, [{ name, tokens: Math.max(0, Math.min(SIZE, holder.computed - index * SIZE)) }]);
      }
    }
    return held;
  }
  function tokensIn(entry) { return Math.max(...entry.map((each) => each.tokens)); }
  function emptySlots(held) { return [...held.values()].reduce((sum, entry) => sum + SIZE - tokensIn(entry), 0); }

  for (const frame of frames) { // blocks found in the cache are shared or taken up again, not given out
    frame.cached_hits = new Set(Object.entries(frame.cached_tokens).flatMap(
      ([name, tokens]) => (frame.holders[name]?.table ?? []).slice(0, Math.floor(tokens / SIZE))));
  }
  const HELD = frames.map(owners);
  const HOST_SHOWN = Math.max(0, ...frames.flatMap((frame) => [...hosted(frame).keys()].map((block) => block + 1)));
  const NOTHING = new Map();
  const changes = (index) => { // blocks that were given out, and those that nobody holds any more, by this step
    const before = index ? HELD[index - 1] : NOTHING, after = HELD[index];
    const stays = (block) => before.has(block) && before.get(block).some((old) => after.get(block).some((each) => each.name === old.name));
    return {
      taken: new Set([...after.keys()].filter((block) => !stays(block) && !frames[index].cached_hits.has(block))),
      freed: new Set([...before.keys()].filter((block) => !after.has(block))),
    };
  };

  /* --- words */

  function tableOf(index, name) { return index >= 0 ? frames[index].holders[name]?.table ?? [] : []; }
  function blocks(list) { return list.length > 12 ? `${list.slice(0, 12).join(", ")}, …` : list.join(", "); }

  function told(index) {
    const frame = frames[index], lines = [];
    const add = (kind, ...parts) => lines.push({ kind, parts });
    for (const [name, mode] of Object.entries(frame.preempted)) {
      const lost = tableOf(index - 1, name).filter((block) => block !== null);
      if (mode === "swap") {
        const away = Object.values(frame.holders[name]?.host ?? {});
        add("alert", chip(name), ` preempted: ${plural(away.length || lost.length, "block")} swapped to the host`);
      } else if (mode === "keep") add("alert", chip(name), " preempted: loses its seat, keeps its blocks");
      else add("alert", chip(name), ` preempted: gives back ${lost.length ? "blocks " + blocks(lost) : "its blocks"}, to be computed again`);
    }
    for (const name of frame.swapped_in) add("good", chip(name), " swapped in: its blocks come back from the host");
    for (const name of frame.admitted) {
      if (frame.swapped_in.includes(name)) continue;
      const cached = frame.cached_tokens[name] || 0;
      const shared = tableOf(index, name).slice(0, Math.floor(cached / SIZE));
      add("good", chip(name), " admitted", cached ? `: ${plural(cached, "token")} found in the cache${shared.length ? ", blocks " + blocks(shared) : ""}` : "");
    }
    for (const [from, to] of frame.copies) {
      const writer = HELD[index].get(to)?.[0].name;
      add("alert", `copy-on-write: block ${from} → block ${to}`, ...(writer ? [", for ", chip(writer)] : []));
    }
    for (const [name, tokens] of Object.entries(frame.scheduled)) {
      const before = new Set(tableOf(index - 1, name)), cached = Math.floor((frame.cached_tokens[name] || 0) / SIZE);
      const copied = new Set(frame.copies.map((copy) => copy[1]));
      const taken = tableOf(index, name).filter((block, place) => block !== null && !before.has(block) && !copied.has(block) && place >= cached);
      add("", chip(name), ` computes ${plural(tokens, "token")}`, taken.length ? `, takes ${taken.length === 1 ? "block" : "blocks"} ${blocks(taken)}` : "",
        frame.outputs[name] ? ", yields one" : "");
    }
    for (const name of Object.keys(frame.holders)) {
      if (index && !(name in frames[index - 1].holders) && !frame.admitted.includes(name) && !(name in frame.scheduled)) {
        add("good", chip(name), ` forked: shares blocks ${blocks(tableOf(index, name))}`);
      }
    }
    for (const name of frame.finished) add("good", chip(name), " ended: gives back its blocks");
    return lines;
  }

  /* --- drawing */

  function cell(block, entry, marks, copies) {
    const made = element("div", "block" + marks);
    const words = element("span", "words");
    words.append(element("span", "id", String(block)));
    if (entry) {
      const full = tokensIn(entry);
      entry.forEach((each, index) => { // stripes, one an owner; pale where no token lies
        for (const part of ["part", "whole"]) {
          const fill = element("span", "fill" + (part === "part" ? " part" : ""));
          fill.style.background = colour(each.name);
          fill.style.top = `${(100 * index) / entry.length}%`;
          fill.style.bottom = `${(100 * (entry.length - 1 - index)) / entry.length}%`;
          if (part === "whole") fill.style.width = `${(100 * full) / SIZE}%`;
          made.append(fill);
        }
      });
      if (full < 0.3 * SIZE) made.classList.add("partly");
      words.append(element("span", "who", entry.map((each) => each.name).join(", ")));
      if (entry.length > 1) made.append(element("span", "badge", `×${entry.length}`));
      made.title = `block ${block}: ${entry.map((each) => each.name).join(", ")}; ${full} of ${SIZE} slots filled`;
    } else {
      words.append(element("span", "who", marks.includes("cached") ? "cached" : "free"));
      made.title = `block ${block}: ${marks.includes("cached") ? "free, its content can still be found" : "free"}`;
    }
    for (const [from, to] of copies) if (to === block) made.append(element("span", "badge low", `copy of ${from}`));
    made.append(words);
    return made;
  }

  function pool(box, count, held, marks, copies) {
    const cells = [];
    for (let block = 0; block < count; block += 1) cells.push(cell(block, held.get(block), marks(block), copies));
    box.replaceChildren(...cells);
  }

  function row(name, holder, held, taken) {
    const made = element("div", "row"), about = element("div", "about"), entries = element("div", "entries");
    const last = holder.table.length * SIZE - holder.computed;
    about.append(chip(name), ` ${holder.state}`, element("br"), `${holder.prompt} + ${holder.generated} tokens`, element("br"),
      `${holder.computed} with KV, ${plural(Math.max(0, last), "empty slot")}`);
    holder.table.forEach((block, index) => {
      const entry = element("span", "entry", block === null ? `host ${holder.host[index] ?? ""}` : String(block));
      if (block === null) entry.classList.add("away");
      else {
        entry.style.background = colour(name);
        entry.style.color = "#14171a";
        if (held.get(block).length > 1) entry.classList.add("shared");
        if (taken.has(block)) entry.classList.add("taken");
      }
      entry.title = `place ${index}: tokens ${index * SIZE} to ${(index + 1) * SIZE - 1}`;
      entries.append(entry);
    });
    made.append(about, entries);
    return made;
  }

  function show(index) {
    now = Math.max(0, Math.min(frames.length - 1, index));
    const frame = frames[now], held = HELD[now], { taken, freed } = changes(now), cached = new Set(frame.cached);
    at("slider").value = String(now);
    const seconds = (value) => value.toLocaleString("en", { maximumFractionDigits: 4 });
    at("when").textContent = `Step ${frame.step} of ${frames[frames.length - 1].step}, ${seconds(frame.start_s)} to ${seconds(frame.end_s)} s`;
    at("events").replaceChildren(...told(now).map((line) => {
      const item = element("li", line.kind);
      item.append(...line.parts);
      return item;
    }));
    at("waiting").replaceChildren(...(frame.waiting.length ? frame.waiting.map(chip) : [element("span", "soft", "nobody")]));
    at("usage").textContent = `${held.size} of ${BLOCKS} in use, ` + (CACHES ? `${cached.size} cached, ` : "") +
      `${frame.free - cached.size} free; ${plural(emptySlots(held), "empty slot")} in those in use`;
    pool(at("device"), BLOCKS, held, (block) => (held.has(block) ? "" : cached.has(block) ? " cached" : " free") +
      (taken.has(block) ? " taken" : freed.has(block) ? " freed" : ""), frame.copies);
    if (HOST_SHOWN) {
      const away = hosted(frame);
      at("host-usage").textContent = `${away.size} of ${HOST} in use` + (HOST_SHOWN < HOST ? `; shown are the first ${HOST_SHOWN}, the others never are` : "");
      pool(at("host"), HOST_SHOWN, away, (block) => (away.has(block) ? "" : " free"), []);
    }
    const rows = Object.entries(frame.holders).map(([name, holder]) => row(name, holder, held, taken));
    at("tables").replaceChildren(...(rows.length ? rows : [element("span", "soft", "nobody holds a block")]));
    cursor();
  }

  /* --- the strip of all steps */

  const SVG = "http://www.w3.org/2000/svg";
  let line = null;

  function overview() {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${frames.length} 100`);
    svg.setAttribute("preserveAspectRatio", "none");
    const area = (className, values) => {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", className);
      const points = values.map((value, index) => `L${index} ${100 - value}L${index + 1} ${100 - value}`).join("");
      path.setAttribute("d", `M0 100${points}L${values.length} 100Z`);
      svg.append(path);
    };
    const used = HELD.map((held) => (100 * held.size) / BLOCKS);
    if (CACHES) area("cached", frames.map((frame, index) => used[index] + (100 * frame.cached.length) / BLOCKS));
    area("used", used);
    const upright = (className, x, top) => {
      const made = document.createElementNS(SVG, "line");
      for (const [key, value] of [["class", className], ["x1", x], ["x2", x], ["y1", top], ["y2", 100]]) made.setAttribute(key, value);
      svg.append(made);
      return made;
    };
    frames.forEach((frame, index) => { if (Object.keys(frame.preempted).length) upright("preempted", index + 0.5, 0); });
    line = upright("now", 0.5, 0.001);
    at("overview").append(svg);
    const go = (event) => {
      const box = at("overview").getBoundingClientRect();
      show(Math.floor((frames.length * (event.clientX - box.left)) / box.width));
    };
    at("overview").addEventListener("pointerdown", (event) => { stop(); go(event); });
    at("overview").addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
  }
  function cursor() { for (const end of ["x1", "x2"]) line.setAttribute(end, now + 0.5); }

  /* --- playing */

  function stop() { clearTimeout(timer); timer = null; at("play").textContent = "Play"; }
  function tick() {
    if (now >= frames.length - 1) { stop(); return; }
    show(now + 1);
    timer = setTimeout(tick, Number(at("speed").value));
  }
  function play() {
    if (timer !== null) { stop(); return; }
    if (now >= frames.length - 1) show(0);
    at("play").textContent = "Stop";
    timer = setTimeout(tick, Number(at("speed").value));
  }

  const moves = { first: () => show(0), back: () => show(now - 1), forward: () => show(now + 1), last: () => show(frames.length - 1) };
  for (const [id, move] of Object.entries(moves)) at(id).addEventListener("click", () => { stop(); move(); });
  at("play").addEventListener("click", play);
  at("slider").max = String(frames.length - 1);
  at("slider").addEventListener("input", () => { stop(); show(Number(at("slider").value)); });
  document.addEventListener("keydown", (event) => {
    const move = { Home: "first", ArrowLeft: "back", ArrowRight: "forward", End: "last" }[event.key];
    if (event.target.tagName === "SELECT" || event.target.id === "slider") return;
    if (move) { stop(); moves[move](); event.preventDefault(); }
    else if (event.key === " " && event.target.tagName !== "BUTTON") { play(); event.preventDefault(); }
  });

  if (SIZE <= 16 && BLOCKS <= 64) document.body.style.setProperty("--slot", `${100 / SIZE}%`);
  const width = BLOCKS <= 64 ? 74 : BLOCKS <= 512 ? 40 : 16;
  for (const id of ["device", "host"]) {
    at(id).style.setProperty("--cell", `${width}px`);
    if (width < 70) at(id).classList.add(width < 30 ? "tiny" : "small");
  }
  if (!HOST_SHOWN) at("host-part").remove();
  const legend = [["l-used", "in use, in its owner's colour"], ["l-part", "pale: empty slots"], ["l-shared", "shared: a stripe an owner"],
                  ["l-taken", "given out in this step"], ["l-freed", "freed in this step"]];
  if (CACHES) legend.push(["l-cached", "free, content still cached"]);
  at("legend").replaceChildren(...legend.map(([className, text]) => element("span", className, text)));
  overview();
  const wanted = Number(new URLSearchParams(location.hash.slice(1)).get("step"));
  show(wanted ? frames.findIndex((frame) => frame.step >= wanted) : 0);
})();
