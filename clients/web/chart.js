// Charts as SVG: lines over a number, and bars by name. Each has a table of the same figures for screen readers.

import { h, number, svg } from "./dom.js";

const HEIGHT = 260, LEFT = 54, RIGHT = 12, TOP = 12, BOTTOM = 34;

// Charts are scaled to their place, and with them their text: on a phone they have fewer units.
const isNarrow = () => innerWidth < 600;

// About `wanted` round values between two others; whole numbers if `least` is 1.
export function ticks(low, high, wanted = 5, least = 0) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / wanted));
  const step = Math.max(least, power * [1, 2, 5, 10].find((factor) => span / (power * factor) <= wanted));
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

// series: [{ name, points: [[x, y], ...] }]; rules: [{ y or x, text }]; dots: points are marked.
export function lineChart({ title, xName, series, rules = [], xRange, yRange, xFormat = number, format = String, dots = false }) {
  const drawn = series.map((one) => ({ ...one, points: thin(one.points) })).filter((one) => one.points.length > 0);
  const WIDTH = isNarrow() ? 360 : 640;
  const all = drawn.flatMap((one) => one.points);
  if (all.length === 0) return h("p", { class: "muted" }, "No data yet.");
  const xs = [...all.map(([x]) => x), ...rules.filter((rule) => rule.x !== undefined).map((rule) => rule.x)];
  const ys = [...all.map(([, y]) => y), ...rules.filter((rule) => rule.y !== undefined).map((rule) => rule.y)];
  const [x0, x1] = xRange ?? [Math.min(0, ...xs), Math.max(...xs, 1)];
  const [y0, y1] = yRange ?? [Math.min(0, ...ys), Math.max(...ys) || 1];
  const x = (value) => LEFT + (WIDTH - LEFT - RIGHT) * (value - x0) / (x1 - x0 || 1);
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - y0) / (y1 - y0 || 1);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": title },
    ticks(y0, y1).map((value) => [svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, format(value))]),
    ticks(x0, x1, isNarrow() ? 4 : 6, xs.every(Number.isInteger) ? 1 : 0).map((value) => svg("text", { x: x(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, xFormat(value))),
    svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, xName),
    rules.map((rule) => rule.y !== undefined ? svg("line", { class: "rule", x1: LEFT, x2: WIDTH - RIGHT, y1: y(rule.y), y2: y(rule.y) })
      : svg("line", { class: "rule", x1: x(rule.x), x2: x(rule.x), y1: TOP, y2: HEIGHT - BOTTOM })),
    drawn.map((one, i) => [
      one.points.length > 1 && svg("polyline", { class: `line s${i % 10}`, points: one.points.map((point) => `${x(point[0])},${y(point[1])}`).join(" ") }),
      (dots || one.points.length === 1) && one.points.map((point) => svg("circle", { class: `s${i % 10}`, cx: x(point[0]), cy: y(point[1]), r: 3.5 }))]),
    // Away from where curves rise, and above them.
    rules.map((rule) => svg("text", rule.y !== undefined
      ? { class: "rule-text", x: WIDTH - RIGHT - 6, y: y(rule.y) < TOP + 14 ? y(rule.y) + 15 : y(rule.y) - 5, "text-anchor": "end" }
      : { class: "rule-text", x: x(rule.x) - 6, y: HEIGHT - BOTTOM - 8, "text-anchor": "end" }, rule.text)));
  const legend = h("ul", { class: "legend", "aria-hidden": "true" }, drawn.map((one, i) => h("li", null,
    svg("svg", { viewBox: "0 0 10 6" }, svg("rect", { class: `s${i % 10}`, width: 10, height: 6, rx: 1 })), h("bdi", null, one.name))));
  return h("div", null, picture, legend, table(title, ["", xName, ""], drawn.flatMap((one) => one.points.slice(-20).map(([a, b]) => [one.name, xFormat(a), format(b)]))));
}

// rows: [[name, value], ...], the largest first.
export function barChart({ title, rows, format = number }) {
  if (rows.length === 0) return h("p", { class: "muted" }, "No data yet.");
  const shown = rows.slice(0, 12);
  const WIDTH = isNarrow() ? 360 : 640, names = isNarrow() ? 90 : 150, room = WIDTH - names - 90;
  const most = Math.max(...shown.map(([, value]) => value), 1e-12);
  const height = 26 * shown.length + 4;
  return h("div", null, svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "chart", role: "img", "aria-label": title },
    shown.map(([name, value], i) => [
      svg("text", { class: "bar-text", x: names, y: 26 * i + 18, "text-anchor": "end" }, name.length > names / 7.5 ? `${name.slice(0, names / 7.5 - 1)}…` : name),
      svg("rect", { class: "s0", x: names + 8, y: 26 * i + 4, width: Math.max(1, room * value / most), height: 18, rx: 3 }),
      svg("text", { class: "bar-text", x: names + 16 + room * value / most, y: 26 * i + 18 }, format(value))])),
  rows.length > shown.length && h("p", { class: "muted" }, `and ${rows.length - shown.length} more`),
  table(title, ["", ""], rows.map(([name, value]) => [name, format(value)])));
}

function table(title, heads, rows) {
  return h("div", { class: "visually-hidden" }, h("table", null, h("caption", null, title),
    h("tbody", null, rows.map((row) => h("tr", null, row.map((cell) => h("td", null, cell)))))));
}

// The stages of a round in order; score runs once per class, at the same time. stages: [{ name, text, now }].
export function flowChart({ title, stages }) {
  const width = 92, gap = 17, height = 46, perRow = isNarrow() ? 3 : stages.length;
  const x = (i) => 2 + (i % perRow) * (width + gap), y = (i) => 12 + Math.floor(i / perRow) * (height + 28);
  const edge = (i) => ((i + 1) % perRow ? `M ${x(i) + width + 2} ${y(i) + 23} h ${gap - 6} m -4 -4 l 4 4 l -4 4`
    : `M ${x(i) + width / 2} ${y(i) + height + 2} v 8 H ${x(i + 1) + width / 2} v 8 m -4 -4 l 4 4 l 4 -4`);
  return svg("svg", { viewBox: `0 0 ${perRow * (width + gap) - gap + 4} ${y(stages.length - 1) + height + 4}`, class: "chart flow", role: "img",
    "aria-label": `${title}: ${stages.map((stage) => `${stage.name} ${stage.text}`).join(", ")}` },
  stages.map((stage, i) => {
    const several = stage.name === "score";
    const own = several ? width - 8 : width;
    return svg("g", { class: stage.now ? "stage now" : "stage" },
      several && [8, 4].map((shift) => svg("rect", { x: x(i) + shift, y: y(i) - shift, width: own, height, rx: 7 })),
      svg("rect", { x: x(i), y: y(i), width: own, height, rx: 7 }),
      svg("text", { class: "name", x: x(i) + own / 2, y: y(i) + 20, "text-anchor": "middle" }, stage.name),
      svg("text", { x: x(i) + own / 2, y: y(i) + 37, "text-anchor": "middle" }, stage.text),
      i + 1 < stages.length && svg("path", { class: "edge", d: edge(i) }));
  }));
}
