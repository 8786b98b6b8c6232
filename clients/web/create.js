// The form for a new campaign, with the YAML that describes it.

import { call, newRequestId, pause } from "./api.js";
import { actionButton, h, number, replace, toast } from "./dom.js";

const FIELDS = [
  ["name", "Name", { required: true, pattern: "[a-z0-9][a-z0-9_\\-]{0,62}", placeholder: "digits" }, "lower-case letters, digits, - and _"],
  ["question", "Question", { placeholder: "Which digit is this?" }, "the first line is the question, more lines are guidelines", "textarea"],
  ["sources", "Pool", { required: true, placeholder: "digits.csv" }, "files, folders or globs in the server's folder of pools, separated by spaces"],
  ["classes", "Classes", { required: true, placeholder: "cat, dog" }, "at least two, separated by commas"],
  ["payloadColumn", "Column to show", { placeholder: "image" }, "what annotators see; empty: the id"],
  ["idColumn", "Column of ids", {}, "empty: row numbers"],
  ["labelColumn", "Column of known labels", { placeholder: "label" }, "not a feature"],
  ["strategy", "Strategy", { placeholder: "adaptive-herding" }, "empty: the default"],
  ["batch", "Examples per round", { type: "number", min: 1, placeholder: "10" }],
  ["overlap", "Annotators per example", { type: "number", min: 1, placeholder: "1" }],
  ["leaseMinutes", "Minutes for an answer", { type: "number", min: 0.1, step: "any", placeholder: "10" }],
  ["labels", "Labels to buy", { type: "number", min: 1, placeholder: "200" }, "the campaign ends after them"],
  ["validation", "Validation set", { placeholder: "test.csv" }, "labeled; its accuracy is measured after every round"],
];

const words = (text, separator) => text.split(separator).map((word) => word.trim()).filter(Boolean);

function specOf(value) {
  const spec = { name: value("name"), pool: { sources: words(value("sources"), /\s+/) }, classes: words(value("classes"), ",") };
  if (value("question")) spec.question = value("question");
  for (const column of ["idColumn", "labelColumn", "payloadColumn"]) if (value(column)) spec.pool[column] = value(column);
  if (value("strategy") || value("batch")) spec.selection = { ...(value("strategy") && { strategy: value("strategy") }), ...(value("batch") && { batch: Number(value("batch")) }) };
  if (value("overlap") || value("leaseMinutes")) {
    spec.labeling = { ...(value("overlap") && { overlap: Number(value("overlap")) }), ...(value("leaseMinutes") && { leaseTime: `${60 * Number(value("leaseMinutes"))}s` }) };
  }
  if (value("labels") || value("validation")) {
    spec.stop = { ...(value("labels") && { labels: value("labels") }), ...(value("validation") && { accuracy: { sources: words(value("validation"), /\s+/) } }) };
  }
  return spec;
}

// A specification as the YAML that `fulcrum campaign create` reads.
export function specYaml(spec, indent = "") {
  const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const scalar = (value) => {
    if (typeof value !== "string") return String(value);
    const constant = /^(?:NORMALIZATION|TYPE|TUNING|ENGINE|LEVERAGE_SCALE)_([A-Z]+)$/.exec(value);
    if (constant) return constant[1].toLowerCase();
    return /^-?\d+(\.\d+)?s?$/.test(value) && indent ? value : JSON.stringify(value);
  };
  return Object.entries(spec).map(([name, value]) => {
    if (Array.isArray(value)) return `${indent}${snake(name)}: [${value.map((entry) => (typeof entry === "string" ? JSON.stringify(entry) : String(entry))).join(", ")}]\n`;
    if (value !== null && typeof value === "object") return `${indent}${snake(name)}:\n${specYaml(value, `${indent}  `)}`;
    return `${indent}${snake(name)}: ${scalar(value)}\n`;
  }).join("");
}

export function createScreen() {
  const inputs = new Map();
  const problems = h("div", { role: "alert" });
  const yaml = h("pre", { class: "yaml", tabIndex: 0, "aria-label": "The specification as YAML" });
  const value = (name) => inputs.get(name).value.trim();
  const stop = new AbortController();
  let requestId = newRequestId();

  const field = ([name, text, attributes, hint, tag = "input"]) => {
    const input = h(tag, { id: `field-${name}`, autocomplete: "off", ...attributes, ...(hint && { "aria-describedby": `hint-${name}` }) });
    inputs.set(name, input);
    return h("div", null, h("label", { htmlFor: input.id }, text), input, hint && h("span", { id: `hint-${name}`, class: "muted" }, hint));
  };

  async function create() {
    replace(problems);
    if (!form.reportValidity()) return;
    const spec = specOf(value);
    try {
      let { operation } = await call("CampaignService/CreateCampaign", { spec, requestId });
      while (["OPERATION_STATE_QUEUED", "OPERATION_STATE_RUNNING"].includes(operation.state) && !stop.signal.aborted) {
        replace(problems, h("p", { role: "status" }, `Importing the pool: ${number(operation.rowsDone)} rows ...`));
        await pause(300, stop.signal);
        ({ operation } = await call("OperationService/GetOperation", { operation: operation.name }));
      }
      if (operation.state !== "OPERATION_STATE_SUCCEEDED") throw new Error(operation.error?.message ?? "The campaign could not be created.");
      await call("CampaignService/StartCampaign", { campaign: spec.name, requestId: newRequestId() });
      toast(`${spec.name} was started.`);
      location.hash = `#/campaign/${encodeURIComponent(spec.name)}`;
    } catch (error) {
      requestId = newRequestId();
      const fields = error.fields ?? [];
      replace(problems, h("div", { class: "problem" }, fields.length ? h("ul", null, fields.map((one) => h("li", null, h("code", null, one.field), " ", one.description))) : h("p", null, error.message)));
    }
  }

  const form = h("form", { class: "card", onsubmit: (event) => event.preventDefault(), oninput: () => (yaml.textContent = specYaml(specOf(value))) },
    h("div", { class: "form-grid" }, FIELDS.map(field)), h("p"), actionButton("Create and start", create, { class: "primary" }), problems);
  return { element: h("main", { id: "main" }, h("h1", null, "New campaign"), form, h("h2", null, "As YAML"), yaml), leave: () => stop.abort() };
}
