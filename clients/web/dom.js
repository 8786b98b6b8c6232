// Elements without a framework. Text is always a text node, so that nothing from a payload or a server becomes markup.

const SVG = "http://www.w3.org/2000/svg";

// Without what a condition left out. An empty text is nothing to show either.
const shown = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false && child !== "");

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name in element && name !== "list" && element.namespaceURI !== SVG) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...shown(children));
  return element;
}

// h("button", { class: "primary", onclick: save }, "Save")
export function h(tag, attributes, ...children) {
  const { class: names, ...others } = attributes ?? {};
  const element = document.createElement(tag);
  if (names) element.className = names;
  return fill(element, others, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function replace(element, ...children) {
  element.replaceChildren(...shown(children));
}

// Text for the screen readers of those who do not see that something has changed.
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

let toastTimer = 0;
export function toast(text, kind = "info") {
  const place = document.getElementById("toast");
  place.className = `toast ${kind} shown`;
  place.textContent = text;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => place.classList.remove("shown"), 6000);
}

// A button that is disabled while its action runs, and reports what went wrong.
export function actionButton(text, act, attributes = {}) {
  const button = h("button", {
    type: "button",
    ...attributes,
    onclick: async () => {
      button.disabled = true;
      try {
        await act();
      } catch (error) {
        toast(error.message, "error");
      } finally {
        button.disabled = false;
      }
    },
  }, text);
  return button;
}

// A question with a few answers; resolves to the value of the chosen one, or null.
export function choose(title, answers) {
  return new Promise((resolve) => {
    const finish = (value) => {
      dialog.close();
      dialog.remove();
      resolve(value);
    };
    const dialog = h("dialog", {
      "aria-label": title,
      oncancel: (event) => {
        event.preventDefault();
        finish(null);
      },
      onkeydown: (event) => {
        event.stopPropagation();
        const answer = answers[Number(event.key) - 1];
        if (answer) {
          event.preventDefault();
          finish(answer.value);
        }
      },
    }, h("h2", null, title),
    h("div", { class: "stack" }, answers.map((answer, i) => h("button", {
      type: "button", class: answer.class ?? "", onclick: () => finish(answer.value),
    }, h("kbd", null, String(i + 1)), " ", answer.text)),
    h("button", { type: "button", class: "quiet", onclick: () => finish(null) }, h("kbd", null, "Esc"), " Cancel")));
    document.body.append(dialog);
    dialog.showModal();
  });
}

export const number = (value) => Number(value ?? 0).toLocaleString("en-US");
export const percent = (value, digits = 1) => `${(100 * value).toFixed(digits)}%`;

export function seconds(value) {
  if (value < 1) return `${Math.round(1000 * value)} ms`;
  if (value < 120) return `${value.toFixed(1)} s`;
  return `${Math.round(value / 60)} min`;
}

export function ago(time) {
  const past = (Date.now() - new Date(time)) / 1000;
  if (!(past >= 0)) return "now";
  if (past < 90) return `${Math.round(past)} s ago`;
  if (past < 5400) return `${Math.round(past / 60)} min ago`;
  if (past < 172800) return `${Math.round(past / 3600)} h ago`;
  return `${Math.round(past / 86400)} days ago`;
}

// Asks for a text; resolves to it, or to null. attributes are those of the input.
export function ask(title, { label, value = "", action = "OK", ...attributes }) {
  return new Promise((resolve) => {
    const input = h("input", { id: "asked", value, autocomplete: "off", ...attributes });
    const finish = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const dialog = h("dialog", { "aria-label": title, onkeydown: (event) => event.stopPropagation(), oncancel: (event) => {
      event.preventDefault();
      finish(null);
    } }, h("form", { onsubmit: (event) => {
      event.preventDefault();
      finish(input.value.trim());
    } }, h("h2", null, title), h("label", { htmlFor: "asked" }, label), input,
    h("div", { class: "row actions" }, h("button", { class: "primary" }, action), h("button", { type: "button", class: "quiet", onclick: () => finish(null) }, "Cancel"))));
    document.body.append(dialog);
    dialog.showModal();
    input.select();
  });
}

export function stateName(state) {
  return (state ?? "").replace("CAMPAIGN_STATE_", "").toLowerCase().replaceAll("_", " ") || "unknown";
}

export const stateBadge = (state) => h("span", { class: `badge ${stateName(state)}` }, stateName(state));

export function bytes(count) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, count)) / 3));
  return `${(count / 1000 ** power).toLocaleString("en-US", { maximumFractionDigits: power ? 1 : 0 })} ${units[power]}`;
}

// About how long something takes, for people.
export function duration(value) {
  if (value < 90) return `${Math.max(1, Math.round(value))} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86400)} days`;
}

export function download(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// With the day unless it is today.
function moment(time) {
  const then = new Date(time);
  return then.toDateString() === new Date().toDateString() ? then.toLocaleTimeString() : then.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

// What a campaign waits for, with the time as people say it.
export function waitReason(reason) {
  const text = reason.until ? reason.text.replace(/ until \d{4}-\S+Z$/, "") : reason.text;
  return h("li", null, h("bdi", null, text), reason.until && h("span", { class: "muted" }, ` until ${moment(reason.until)}`));
}
