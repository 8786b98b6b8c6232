// The pool as a picture: examples on the two leading coordinates of the kernel, coloured by predicted class.

import { call } from "./api.js";
import { h, number, percent, replace, svg } from "./dom.js";

const WIDTH = 640, HEIGHT = 440, EDGE = 14;

function bounds(map) {
  const box = { left: Infinity, right: -Infinity, bottom: Infinity, top: -Infinity };
  const include = (x, y) => {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.bottom = Math.min(box.bottom, y);
    box.top = Math.max(box.top, y);
  };
  for (const point of map.points ?? []) include(point.x ?? 0, point.y ?? 0);
  const grid = map.density;
  if (grid) {
    include(grid.left ?? 0, grid.bottom ?? 0);
    include((grid.left ?? 0) + grid.columns * grid.cellWidth, (grid.bottom ?? 0) + grid.rows * grid.cellHeight);
  }
  return box;
}

function draw(map, onOpen) {
  const points = map.points ?? [];
  if (points.length === 0) return h("p", { class: "muted" }, "No data yet.");
  const box = bounds(map);
  const x = (value) => EDGE + (WIDTH - 2 * EDGE) * (value - box.left) / (box.right - box.left || 1);
  const y = (value) => HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * (value - box.bottom) / (box.top - box.bottom || 1);
  const classes = map.classes ?? [];
  const colour = (predicted) => (predicted ? `s${(predicted - 1) % 10}` : "none");
  const highest = points.reduce((most, point) => Math.max(most, point.leverage ?? 0), 0), mostLeverage = highest || 1;
  const cells = [];
  if (map.density) {
    const { left = 0, bottom = 0, cellWidth, cellHeight, columns } = map.density;
    const most = Math.max(...map.density.cells.map((cell) => cell.count));
    const [width, height] = [x(left + cellWidth) - x(left), y(bottom) - y(bottom + cellHeight)];
    for (const { index = 0, count, predicted } of map.density.cells) {
      cells.push(svg("rect", { class: `cell ${colour(predicted)}`, x: x(left + (index % columns) * cellWidth),
        y: y(bottom + (Math.floor(index / columns) + 1) * cellHeight), width: width + 0.3, height: height + 0.3,
        "fill-opacity": (0.08 + 0.72 * Math.sqrt(count / most)).toFixed(3) }));
    }
  }
  const rank = (point) => (point.selected ? 2 : point.label ? 1 : 0);
  // With the density below, single examples are shown if something is known about them.
  const shown = points.filter((point) => !map.density || rank(point) > 0).sort((a, b) => rank(a) - rank(b));
  const dots = shown.map((point) => {
    const radius = 1.6 + 4.4 * Math.sqrt((point.leverage ?? 0) / mostLeverage);
    const place = { cx: x(point.x ?? 0).toFixed(1), cy: y(point.y ?? 0).toFixed(1) };
    const title = `${point.itemId}: ${point.label ? `labeled ${classes[point.label - 1]}` : `predicted ${classes[point.predicted - 1] ?? "nothing yet"}`}${point.selected ? ", selected in this round" : ""}`;
    const labeled = point.label > 0;
    return svg("g", { class: "dot", onclick: () => onOpen(point.itemId) }, svg("title", null, title),
      point.selected && svg("circle", { ...place, r: (radius + 4).toFixed(1), class: "ring" }),
      svg("circle", { ...place, r: (labeled ? Math.max(3.2, radius) : radius).toFixed(1), class: labeled ? `labeled ${colour(point.label)}` : colour(point.predicted),
        "fill-opacity": labeled || point.selected ? 1 : 0.55 }));
  });
  const count = (test) => number(points.filter(test).length);
  const known = classes.slice(0, 10).map((name, i) => h("li", null, svg("svg", { viewBox: "0 0 10 6", "aria-hidden": "true" }, svg("rect", { class: `s${i}`, width: 10, height: 6, rx: 1 })), h("bdi", null, name)));
  const summary = `${number(map.poolRows)} examples, ${count((point) => point.label)} of those shown are labeled, ${count((point) => point.selected)} are of round ${map.round ?? 0}`;
  return h("div", null,
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart map", role: "img", "aria-label": `The pool in two dimensions: ${summary}` }, cells, dots),
    h("ul", { class: "legend" }, known,
      h("li", null, svg("svg", { viewBox: "0 0 12 12", class: "key", "aria-hidden": "true" }, svg("circle", { cx: 6, cy: 6, r: 4, class: "labeled none" })), "labeled"),
      h("li", null, svg("svg", { viewBox: "0 0 12 12", class: "key", "aria-hidden": "true" }, svg("circle", { cx: 6, cy: 6, r: 5, class: "ring" })), "selected in this round"),
      highest > 0 && h("li", null, "size: leverage")),
    h("p", { class: "muted small-text" }, summary, ". ", map.density ? `Density of ${number(map.density.projectedRows)} examples. ` : "",
      `Kernel coordinates with ${(map.varianceShares ?? []).map((share) => percent(share, 0)).join(" and ")} of the variance; ${map.method}.`));
}

// A card that shows the pool of a campaign. `refresh` draws it again if its round, or what is labeled, may have changed.
export function poolMap(campaign, signal, onOpen) {
  const element = h("div", null, h("p", { class: "muted" }, "Computing the picture ..."));
  let busy = false, again = false;
  const refresh = async () => {
    if (busy) return void (again = true);
    busy = true;
    try {
      const map = await call("ReportService/GetPoolMap", { campaign }, { signal });
      replace(element, draw(map, onOpen));
    } catch (error) {
      if (error.name !== "AbortError") replace(element, h("p", { class: "muted" }, `There is no picture: ${error.message}`));
    }
    busy = false;
    if (again && !signal.aborted) {
      again = false;
      setTimeout(refresh, 1000);
    }
  };
  return { element, refresh };
}
