// Charts as SVG: lines over a number, and bars by name. Each has a table of the same figures for screen readers.

import { h, number, svg } from "./dom.js";

const WIDTH = 640, HEIGHT = 260, LEFT = 48, RIGHT = 12, TOP = 12, BOTTOM = 34;

// About `wanted` round values between two others.
export function ticks(low, high, wanted = 5) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  const step = power * [1, 2, 5, 10].find((factor) => span / (power * factor) <= wanted);
  const values = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) values.push(Number(value.toPrecision(12)));
  return values;
}

// At most `most` points: of many, the last one of each stretch.
function thin(points, most = 400) {
  if (points.length <= most) return points;
  const stride = points.length / most;
  return Array.from({ length: most }, (_, i) => points[Math.min(points.length - 1, Math.floor((i + 1) * stride) - 1)]);
}

// series: [{ name, points: [[x, y], ...] }]; rules: [{ y or x, text }].
export function lineChart({ title, xName, series, rules = [], yRange, format = String }) {
  const drawn = series.map((one) => ({ ...one, points: thin(one.points) })).filter((one) => one.points.length > 0);
  const all = drawn.flatMap((one) => one.points);
  if (all.length === 0) return h("p", { class: "muted" }, "No data yet.");
  const xs = [...all.map(([x]) => x), ...rules.filter((rule) => rule.x !== undefined).map((rule) => rule.x)];
  const ys = [...all.map(([, y]) => y), ...rules.filter((rule) => rule.y !== undefined).map((rule) => rule.y)];
  const [x0, x1] = [Math.min(0, ...xs), Math.max(...xs, 1)];
  const [y0, y1] = yRange ?? [Math.min(0, ...ys), Math.max(...ys) || 1];
  const x = (value) => LEFT + (WIDTH - LEFT - RIGHT) * (value - x0) / (x1 - x0 || 1);
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - y0) / (y1 - y0 || 1);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": title },
    ticks(y0, y1).map((value) => [svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value))]),
    ticks(x0, x1, 6).map((value) => svg("text", { x: x(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, number(value))),
    svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, xName),
    rules.map((rule) => rule.y !== undefined
      ? [svg("line", { class: "rule", x1: LEFT, x2: WIDTH - RIGHT, y1: y(rule.y), y2: y(rule.y) }),
        svg("text", { class: "rule-text", x: LEFT + 4, y: y(rule.y) - 4 }, rule.text)]
      : [svg("line", { class: "rule", x1: x(rule.x), x2: x(rule.x), y1: TOP, y2: HEIGHT - BOTTOM }),
        svg("text", { class: "rule-text", x: x(rule.x) - 4, y: TOP + 10, "text-anchor": "end" }, rule.text)]),
    drawn.map((one, i) => one.points.length === 1
      ? svg("circle", { class: `s${i % 8}`, cx: x(one.points[0][0]), cy: y(one.points[0][1]), r: 3 })
      : svg("polyline", { class: `line s${i % 8}`, points: one.points.map((point) => `${x(point[0])},${y(point[1])}`).join(" ") })));
  const legend = drawn.length > 1 && h("ul", { class: "legend", "aria-hidden": "true" }, drawn.map((one, i) => h("li", null,
    svg("svg", { viewBox: "0 0 10 6" }, svg("rect", { class: `s${i % 8}`, width: 10, height: 6, rx: 1 })), h("bdi", null, one.name))));
  return h("div", null, picture, legend, table(title, ["", xName, ""], drawn.flatMap((one) => one.points.slice(-20).map(([a, b]) => [one.name, number(a), format(b)]))));
}

// rows: [[name, value], ...], the largest first.
export function barChart({ title, rows, format = number }) {
  if (rows.length === 0) return h("p", { class: "muted" }, "No data yet.");
  const shown = rows.slice(0, 12);
  const most = Math.max(...shown.map(([, value]) => value), 1e-12);
  const height = 26 * shown.length + 4;
  return h("div", null, svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart", role: "img", "aria-label": title },
    shown.map(([name, value], i) => [
      svg("text", { class: "bar-text", x: 150, y: 26 * i + 18, "text-anchor": "end" }, name.length > 20 ? `${name.slice(0, 19)}…` : name),
      svg("rect", { class: "s0", x: 158, y: 26 * i + 4, width: Math.max(1, (WIDTH - 260) * value / most), height: 18, rx: 3 }),
      svg("text", { class: "bar-text", x: 166 + (WIDTH - 260) * value / most, y: 26 * i + 18 }, format(value))])),
  rows.length > shown.length && h("p", { class: "muted" }, `and ${rows.length - shown.length} more`),
  table(title, ["", ""], rows.map(([name, value]) => [name, format(value)])));
}

function table(title, heads, rows) {
  return h("table", { class: "visually-hidden" }, h("caption", null, title),
    h("tbody", null, rows.map((row) => h("tr", null, row.map((cell) => h("td", null, cell))))));
}
