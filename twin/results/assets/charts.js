"use strict";
/* Draws the figures of a page: each figure of class chart holds its data as JSON, each panel a box to draw in. */
(function () {
  const INKS = {
    light: { ink: "#1f242b", soft: "#69717c", faint: "#e3e6ea", paper: "#ffffff", blue: "#2a78b8", orange: "#d9820f",
             green: "#12916b", red: "#c8414b", grey: "#8a9099", purple: "#8257b5", brown: "#8a5a33", pink: "#cf5c9b" },
    dark: { ink: "#e4e7eb", soft: "#98a1ac", faint: "#2c323a", paper: "#15181c", blue: "#5aa9e6", orange: "#f0a13a",
            green: "#3fbf97", red: "#f0737c", grey: "#8b949f", purple: "#b08be0", brown: "#c19a73", pink: "#ec8fc0" },
  };
  const COLD = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
  const DARK = window.matchMedia("(prefers-color-scheme: dark)");
  const TOUCH = window.matchMedia("(pointer: coarse)");
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

  function told(value, shows) {
    if (typeof value === "string") return value;
    if (value === null || Number.isNaN(value)) return "–";
    if (shows === "percent") return (100 * value).toLocaleString("en", { maximumSignificantDigits: 4 }) + " %";
    return value.toLocaleString("en", { maximumSignificantDigits: 5 });
  }

  function extent(axis, values) {
    const known = values.filter((value) => typeof value === "number" && (axis.scale !== "log" || value > 0));
    let least = axis.least, most = axis.most;
    const low = known.reduce((a, b) => Math.min(a, b), Infinity), high = known.reduce((a, b) => Math.max(a, b), -Infinity);
    if (least === null) {
      if (!known.length) least = axis.scale === "log" ? 0.1 : 0;
      else if (axis.scale === "log") least = low / 1.2;
      else least = low > 0.5 * high ? low - 0.1 * (high - low || 1) : Math.min(0, low) - 0.02 * (high - Math.min(0, low));
    }
    if (most === null) {
      if (!known.length) most = least + 1;
      else most = axis.scale === "log" ? high * 1.2 : high + 0.05 * (high - least);
    }
    if (!(most > least)) most = axis.scale === "log" ? 10 * least : least + 1;
    return [least, most];
  }

  function names(panel) {
    if (panel.heat) return panel.heat.x;
    const bars = panel.series.filter((series) => series.kind === "bars" || typeof series.x[0] === "string");
    return bars.length ? [...new Set(bars.flatMap((series) => series.x))] : null;
  }

  function formatter(axis) {
    if (axis.shows === "percent") return new Bokeh.NumeralTickFormatter({ format: "0.[0] %" });
    if (axis.scale === "log") return new Bokeh.BasicTickFormatter({ power_limit_low: -5, power_limit_high: 7 });
    return new Bokeh.BasicTickFormatter({ use_scientific: false, precision: "auto" });
  }

  function axes(figure, panel, ink) {
    for (const [name, place] of [["x", "below"], ["y", "left"]]) {
      const axis = figure[place][0];
      axis.axis_label = panel[name].label || null;
      axis.axis_label_text_font_style = "normal";
      for (const part of ["axis_label_text", "major_label_text"]) {
        axis[part + "_color"] = part === "axis_label_text" ? ink.soft : ink.ink;
        axis[part + "_font"] = FONT;
        axis[part + "_font_size"] = "12px";
      }
      axis.axis_line_color = axis.major_tick_line_color = ink.grey;
      axis.minor_tick_line_color = null;
      axis.major_tick_in = 0;
      axis.major_tick_out = 4;
      if (!figure[name + "_range"].factors) {
        axis.formatter = formatter(panel[name]);
        if (panel[name].scale !== "log") axis.ticker.desired_num_ticks = name === "x" ? 6 : 5;
      }
    }
    if (figure.x_range.factors) {
      const longest = Math.max(...figure.x_range.factors.map((factor) => factor.length));
      const room = panel.box.clientWidth / figure.x_range.factors.length;
      if (longest * 7 > room) figure.below[0].major_label_orientation = room < 16 ? Math.PI / 2 : 0.6;
    }
    for (const grid of figure.center) if (grid instanceof Bokeh.Grid) grid.grid_line_color = ink.faint;
    if (figure.x_range.factors) figure.center.find((grid) => grid.dimension === 0).grid_line_color = null;
  }

  function stepped(series) { // a value holds until the next x: corners drawn out, so that one can point at them
    const x = [], y = [], texts = series.texts ? [] : null;
    series.x.forEach((at, index) => {
      if (index) { x.push(at); y.push(series.y[index - 1]); if (texts) texts.push(series.texts[index - 1]); }
      x.push(at); y.push(series.y[index]); if (texts) texts.push(series.texts[index]);
    });
    return { ...series, x, y, texts };
  }

  function draw(figure, panel, given, ink) {
    const series = given.kind === "step" ? stepped(given) : given;
    const data = {
      x: series.x, y: series.y.map((value) => value === null ? NaN : value),
      x_told: series.x.map((value) => told(value, panel.x.shows)), y_told: series.y.map((value) => told(value, panel.y.shows)),
      text: series.texts || series.x.map(() => series.name),
    };
    const colour = ink[series.colour] || series.colour;
    const drawn = [];
    if (series.low) {
      const band = new Bokeh.ColumnDataSource({ data: { x: series.x, low: series.low, high: series.high } });
      drawn.push(figure.varea({ x: { field: "x" }, y1: { field: "low" }, y2: { field: "high" }, source: band,
                                fill_color: colour, fill_alpha: 0.2 }));
    }
    const source = new Bokeh.ColumnDataSource({ data });
    const common = { source, name: series.name };
    const at = [{ field: "x" }, { field: "y" }];
    let pointed;
    if (series.kind === "bars") {
      pointed = figure.vbar({ x: at[0], top: at[1], bottom: 0, width: 0.8, fill_color: colour, line_color: null, ...common });
    } else if (series.kind === "points") {
      pointed = figure.scatter(...at, { size: series.size, fill_color: colour, fill_alpha: series.size < 6 ? 0.55 : 0.9,
                                        line_color: series.size < 6 ? null : ink.paper, ...common });
    } else {
      pointed = figure.line(...at, { line_color: colour, line_width: 2, line_join: "round",
                                     line_dash: series.dashed ? "dashed" : "solid", ...common });
    }
    drawn.push(pointed);
    if (series.labels) {
      const words = new Bokeh.ColumnDataSource({ data: { x: data.x, y: data.y, word: series.labels } });
      drawn.push(figure.text({ field: "x" }, { field: "y" }, { field: "word" }, {
        source: words, x_offset: 7, y_offset: 4, text_baseline: "top", text_font: FONT, text_font_size: "11px",
        text_color: ink.ink }));
    }
    return { series, drawn, pointed };
  }

  function heat(figure, panel, ink) {
    const { x, y, values, unit, marked } = panel.heat;
    const cells = { x: [], y: [], value: [], told: [] };
    values.forEach((row, i) => row.forEach((value, j) => {
      if (value !== null) {
        cells.x.push(x[j]); cells.y.push(y[i]); cells.value.push(value); cells.told.push(told(value, "number") + " " + unit);
      }
    }));
    const least = Math.min(...cells.value), most = Math.max(...cells.value);
    const mapper = new Bokeh.LinearColorMapper({ palette: COLD, low: least, high: most > least ? most : least + 1 });
    const source = new Bokeh.ColumnDataSource({ data: {
      ...cells,
      word: cells.value.map((value) => value.toLocaleString("en", { maximumSignificantDigits: 3 })),
      ink: cells.value.map((value) => (most > least && (value - least) / (most - least) > 0.55) ? "#111111" : "#ffffff"),
    } });
    const rect = figure.rect({ x: { field: "x" }, y: { field: "y" }, width: 0.96, height: 0.94, source, line_color: null,
                               fill_color: { field: "value", transform: mapper } });
    figure.text({ field: "x" }, { field: "y" }, { field: "word" }, { source, text_align: "center", text_baseline: "middle",
      text_font: FONT, text_font_size: "11px", text_color: { field: "ink" } });
    if (marked) {
      const best = new Bokeh.ColumnDataSource({ data: { x: [x[marked[1]]], y: [y[marked[0]]] } });
      figure.rect({ x: { field: "x" }, y: { field: "y" }, width: 0.96, height: 0.94, source: best, fill_color: null,
                    line_color: ink.red, line_width: 3 });
    }
    const label = [[panel.x.label || "x", "@x"], [panel.y.label || "y", "@y"], ["", "@told"]];
    figure.add_tools(new Bokeh.HoverTool({ renderers: [rect], tooltips: label }));
  }

  function rule(figure, given, ink) {
    const upright = given.x !== null, at = upright ? given.x : given.y, colour = ink[given.colour] || given.colour;
    figure.add_layout(new Bokeh.Span({ location: at, dimension: upright ? "height" : "width", line_color: colour,
                                       line_dash: "dashed", line_width: 1.5 }));
    figure.add_layout(new Bokeh.Label({ x: upright ? at : 4, y: upright ? 4 : at, x_units: upright ? "data" : "screen",
      y_units: upright ? "screen" : "data", x_offset: upright ? 4 : 0, y_offset: upright ? 0 : 2, text: given.text,
      text_font: FONT, text_font_size: "11px", text_color: colour }));
  }

  /* Legends are part of the page: what is clicked is shown or hidden, in all panels that the legend stands for. */

  function entries(panel) {
    const found = new Map();
    for (const series of panel.series) if (series.legend && series.name && !found.has(series.group)) found.set(series.group, series);
    return [...found.values()];
  }

  function keys(series, drawn, ink) {
    const box = document.createElement("div");
    box.className = "keys";
    for (const each of series) {
      const key = document.createElement("button"), swatch = document.createElement("span");
      key.type = "button";
      key.setAttribute("aria-pressed", "true");
      swatch.className = `swatch ${each.kind}${each.dashed ? " dashed" : ""}`;
      swatch.style.color = ink[each.colour] || each.colour;
      key.append(swatch, each.name);
      key.addEventListener("click", () => {
        const shown = key.getAttribute("aria-pressed") !== "true";
        key.setAttribute("aria-pressed", String(shown));
        for (const line of drawn) if (line.series.group === each.group) for (const part of line.drawn) part.visible = shown;
      });
      box.append(key);
    }
    return box;
  }

  function legends(chart, panels, boxes, lines, ink) {
    chart.querySelectorAll(".keys").forEach((old) => old.remove());
    const lists = panels.map(entries), said = (list) => JSON.stringify(list.map((each) => [each.group, each.colour]));
    const full = lists.filter((list) => list.length);
    if (panels.length > 1 && full.length === panels.length && new Set(full.map(said)).size === 1 && full[0].length > 1) {
      chart.prepend(keys(full[0], lines.flat(), ink));
      return;
    }
    lists.forEach((list, index) => {
      if (list.length > 1 || (list.length && list[0].low)) boxes[index].before(keys(list, lines[index], ink));
    });
  }

  function hover(figure, panel, lines) {
    const y = panel.y.label || "y", x = panel.x.label || "x";
    figure.add_tools(new Bokeh.HoverTool({
      renderers: lines.filter((line) => !line.series.labels).map((line) => line.pointed), tooltips: [["", "@text"], [x, "@x_told"], [y, "@y_told"]],
      point_policy: "snap_to_data", line_policy: "nearest", mode: "mouse",
    }));
  }

  function plot(panel, box, ink, linked) {
    const factors = names(panel);
    const all = (key) => panel.series.flatMap((s) => s[key]);
    const ruled = (key) => panel.rules.map((given) => given[key]).filter((value) => value !== null);
    const ends = (key, more) => new Bokeh.Range1d(Object.fromEntries(
      extent(panel[key], [...all(key), ...more.flatMap((s) => s || []), ...ruled(key)]).map((v, i) => [["start", "end"][i], v])));
    const figure = Bokeh.Plotting.figure({
      x_range: factors ? new Bokeh.FactorRange({ factors }) : ends("x", []),
      y_range: panel.heat ? new Bokeh.FactorRange({ factors: panel.heat.y })
                          : ends("y", panel.series.flatMap((s) => [s.low, s.high])),
      x_axis_type: factors ? "auto" : panel.x.scale, y_axis_type: panel.heat ? "auto" : panel.y.scale,
      height: panel.height, sizing_mode: "stretch_width", tools: "pan,box_zoom,wheel_zoom,reset,save",
      toolbar_location: "right", background_fill_color: null, border_fill_color: null, outline_line_color: null,
      min_border_right: 8, min_border_left: box.clientWidth > 500 ? 72 : 56, output_backend: "canvas",
    });
    figure.toolbar.logo = null;
    figure.toolbar.autohide = true;
    if (linked) { // they zoom together, along x alone
      for (const tool of figure.toolbar.tools) if (tool instanceof Bokeh.BoxZoomTool || tool instanceof Bokeh.WheelZoomTool) tool.dimensions = "width";
    }
    const tool = (kind) => figure.toolbar.tools.find((each) => each instanceof Bokeh[kind]);
    if (TOUCH.matches) { // a finger that moves scrolls the page; two fingers zoom
      figure.toolbar.active_drag = null;
      figure.toolbar.active_scroll = tool("WheelZoomTool");
    } else {
      figure.toolbar.active_drag = tool("BoxZoomTool");
      figure.toolbar.active_scroll = null;
    }
    axes(figure, { ...panel, box }, ink);
    if (panel.heat) heat(figure, panel, ink);
    const lines = panel.series.map((series) => draw(figure, panel, series, ink));
    panel.rules.forEach((given) => rule(figure, given, ink));
    if (lines.length) hover(figure, panel, lines);
    return { figure, lines };
  }

  function link(figures) { // along x, all of them show the same span
    let busy = false;
    for (const figure of figures) {
      for (const end of ["start", "end"]) {
        figure.x_range.properties[end].change.connect(() => {
          if (busy) return;
          busy = true;
          const { start, end } = figure.x_range;
          for (const other of figures) if (other !== figure) other.x_range.setv({ start, end });
          busy = false;
        });
      }
    }
  }

  async function drawAll() {
    const ink = INKS[DARK.matches ? "dark" : "light"];
    for (const chart of document.querySelectorAll("figure.chart")) {
      const panels = JSON.parse(chart.querySelector('script[type="application/json"]').textContent);
      const boxes = chart.querySelectorAll(".canvas");
      const figures = [], lines = [];
      for (const [index, panel] of panels.entries()) {
        boxes[index].replaceChildren();
        const made = plot(panel, boxes[index], ink, chart.dataset.linkX === "yes");
        figures.push(made.figure);
        lines.push(made.lines);
        await Bokeh.Plotting.show(made.figure, boxes[index]);
      }
      legends(chart, panels, boxes, lines, ink);
      if (chart.dataset.linkX === "yes") link(figures);
      chart.dataset.drawn = "yes";
    }
  }

  async function load() { // the library lies in the page, compressed
    const packed = document.getElementById("plotting-library").textContent;
    const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
    const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
    Bokeh.set_log_level("warn");
    await drawAll();
    DARK.addEventListener("change", drawAll);
  }

  load().catch((error) => {
    for (const chart of document.querySelectorAll("figure.chart:not([data-drawn])")) {
      const line = document.createElement("p");
      line.className = "soft";
      line.textContent = "This browser cannot draw the figures (" + error.message + "); the tables have the numbers.";
      chart.prepend(line);
    }
    console.error(error);
  });
})();
