// The form for a new campaign, with the YAML that describes it.

import { call, newRequestId, pause } from "./api.js";
import { actionButton, h, number, replace, toast } from "./dom.js";
import { poolChooser } from "./pools.js";

const FIELDS = [
  ["name", "Name", { required: true, pattern: "[a-z0-9][a-z0-9_\\-]{0,62}", placeholder: "digits" }, "lower-case letters, digits, - and _"],
  ["question", "Question", { placeholder: "Which digit is this?", rows: 3 }, "the first line is the question, more lines are guidelines, as Markdown", "textarea"],
  ["classes", "Classes", { required: true, placeholder: "cat, dog" }, "at least two, separated by commas"],
  ["labels", "Labels to buy", { type: "number", min: 1, placeholder: "200" }, "the campaign ends after them"],
];
const MORE_FIELDS = [
  ["strategy", "Strategy", { placeholder: "adaptive-herding" }, "empty: the default"],
  ["batch", "Examples per round", { type: "number", min: 1, placeholder: "10" }],
  ["overlap", "Annotators per example", { type: "number", min: 1, placeholder: "1" }],
  ["leaseMinutes", "Minutes for an answer", { type: "number", min: 0.1, step: "any", placeholder: "10" }],
  ["validation", "Validation set", { placeholder: "test.csv" }, "labeled, in the server's folder of pools; accuracy is measured after every round"],
  ["accuracy", "Ends at this accuracy", { type: "number", min: 0, max: 1, step: "any", placeholder: "0.95" }, "on the validation set"],
];

const words = (text, separator) => text.split(separator).map((word) => word.trim()).filter(Boolean);

function specOf(value, pool) {
  const given = (fields) => Object.fromEntries(Object.entries(fields).filter(([, one]) => one !== "" && one !== undefined));
  const spec = { name: value("name"), ...given({ question: value("question") }), pool: { sources: pool.sources, ...pool.columns }, classes: words(value("classes"), ",") };
  const selection = given({ strategy: value("strategy"), batch: value("batch") && Number(value("batch")) });
  const labeling = given({ overlap: value("overlap") && Number(value("overlap")), leaseTime: value("leaseMinutes") && `${60 * Number(value("leaseMinutes"))}s` });
  const accuracy = value("validation") ? { accuracy: { sources: words(value("validation"), /\s+/), ...given({ target: value("accuracy") && Number(value("accuracy")) }) } } : {};
  const stop = { ...given({ labels: value("labels") }), ...accuracy };
  for (const [name, part] of Object.entries({ selection, labeling, stop })) if (Object.keys(part).length > 0) spec[name] = part;
  return spec;
}

// What the constants of a field begin with in JSON, and do not in YAML.
const CONSTANTS = { normalize: "NORMALIZATION_", type: "TYPE_", fallback: "FALLBACK_", tune: "TUNING_", leverageScale: "LEVERAGE_SCALE_", engine: "ENGINE_",
  consensus: "CONSENSUS_" };
const TIMES = new Set(["timeout", "leaseTime", "disputeTime", "softTime", "hardTime"]);
const NUMBERS = new Set(["labels", "seed", "memoryMib"]); // of 64 bits, which are text in JSON

// A specification as the YAML that `fulcrum campaign create` reads.
export function specYaml(spec, indent = "") {
  return Object.entries(spec).map(([field, value]) => {
    const name = field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const scalar = (one) => {
      if (CONSTANTS[field]) return String(one).replace(CONSTANTS[field], "").toLowerCase();
      return typeof one !== "string" || TIMES.has(field) || NUMBERS.has(field) ? String(one) : JSON.stringify(one);
    };
    if (Array.isArray(value)) return `${indent}${name}: [${value.map(scalar).join(", ")}]\n`;
    if (value === null || typeof value !== "object") return `${indent}${name}: ${scalar(value)}\n`;
    return Object.keys(value).length ? `${indent}${name}:\n${specYaml(value, `${indent}  `)}` : `${indent}${name}: {}\n`;
  }).join("");
}

export function createScreen() {
  const inputs = new Map();
  const stop = new AbortController();
  const problems = h("div", { role: "alert" });
  const yaml = h("pre", { class: "yaml", tabIndex: 0, "aria-label": "The specification as YAML" });
  const value = (name) => inputs.get(name).value.trim();
  let attempt = { text: "", create: "", start: "" }; // request ids stay the same until the order is another one
  let pool = { sources: [], columns: {}, preview: null };
  const spec = () => specOf(value, pool);
  const showYaml = () => (yaml.textContent = specYaml(spec()));

  const field = ([name, text, attributes, hint, tag = "input"]) => {
    const input = h(tag, { id: `field-${name}`, autocomplete: "off", ...attributes, ...(hint && { "aria-describedby": `hint-${name}` }) });
    inputs.set(name, input);
    return h("div", null, h("label", { htmlFor: input.id }, text), input, hint && h("span", { id: `hint-${name}`, class: "muted" }, hint));
  };

  // Known labels are the classes, unless others were typed.
  function onPool(chosen) {
    pool = chosen;
    const classes = (chosen.preview?.classes ?? []).map((one) => one.value);
    if (!value("classes") && classes.length >= 2 && classes.length <= 50) inputs.get("classes").value = classes.sort((a, b) => a.localeCompare(b, "en", { numeric: true })).join(", ");
    const file = chosen.sources[0] ?? "";
    if (!value("name") && file && !file.startsWith("upload:")) inputs.get("name").value = file.replace(/\.[^/]*$/, "").replace(/[^a-z0-9_-]+/gi, "-").toLowerCase().replace(/^[^a-z0-9]+/, "").slice(0, 63);
    showYaml();
  }

  async function create(start) {
    replace(problems);
    if (!form.reportValidity()) return;
    const order = spec(), text = JSON.stringify(order);
    if (attempt.text !== text) attempt = { text, create: newRequestId(), start: newRequestId() };
    try {
      let { operation } = await call("CampaignService/CreateCampaign", { spec: order, requestId: attempt.create });
      while (["OPERATION_STATE_QUEUED", "OPERATION_STATE_RUNNING"].includes(operation.state) && !stop.signal.aborted) {
        replace(problems, h("p", { role: "status" }, `Importing the pool: ${number(operation.rowsDone)} rows ...`));
        await pause(300, stop.signal);
        ({ operation } = await call("OperationService/GetOperation", { operation: operation.name }));
      }
      if (operation.state !== "OPERATION_STATE_SUCCEEDED") {
        attempt.text = ""; // the same id would return the same failure
        throw new Error(operation.error?.message ?? "The campaign could not be created.");
      }
      if (start) await call("CampaignService/StartCampaign", { campaign: order.name, requestId: attempt.start });
      toast(`${order.name} was ${start ? "started" : "created"}.`);
      location.hash = `#/campaign/${encodeURIComponent(order.name)}`;
    } catch (error) {
      const fields = error.fields ?? [];
      replace(problems, h("div", { class: "problem" }, fields.length ? h("ul", null, fields.map((one) => h("li", null, h("code", null, one.field), " ", one.description))) : h("p", null, error.message)));
    }
  }

  const form = h("form", { class: "create", onsubmit: (event) => event.preventDefault(), oninput: showYaml },
    poolChooser(stop.signal, onPool),
    h("fieldset", { class: "card" }, h("legend", null, "2. The question"), h("div", { class: "form-grid" }, FIELDS.map(field)),
      h("details", null, h("summary", null, "More settings"), h("div", { class: "form-grid" }, MORE_FIELDS.map(field)))),
    h("fieldset", { class: "card" }, h("legend", null, "3. Start"), problems,
      h("div", { class: "row" }, actionButton("Create and start", () => create(true), { class: "primary" }), actionButton("Create only", () => create(false))),
      h("details", null, h("summary", null, "The specification as YAML"), h("p", { class: "muted" }, "What ", h("code", null, "fulcrum campaign create"), " reads."), yaml)));
  showYaml();
  return { element: h("main", { id: "main" }, h("h1", null, "New campaign"), form), leave: () => stop.abort() };
}
