// Chooses the pool of a new campaign: a file in the server's folder of pools, or one that is uploaded, with a preview of
// its columns, their roles, and what is likely a mistake.

import { ApiError, backoff, call, newRequestId, pause } from "./api.js";
import { actionButton, bytes, duration, h, number, replace } from "./dom.js";

const CHUNK = 1 << 20;
const CHUNK_TIME = 60000;
const ROLES = [["", "feature"], ["idColumn", "id"], ["labelColumn", "known label"], ["payloadColumn", "shown to annotators"], ["costColumn", "cost of a label"], ["ignoredColumns", "not used"]];
const ROLE_OF = { COLUMN_ROLE_ID: "idColumn", COLUMN_ROLE_LABEL: "labelColumn", COLUMN_ROLE_PAYLOAD: "payloadColumn", COLUMN_ROLE_COST: "costColumn",
  COLUMN_ROLE_IGNORED: "ignoredColumns" };

// A text file has only texts, some of which are numbers.
const typeOf = ({ type, numeric }) => (/^(large_)?(string|utf8|binary)$/.test(type) ? (numeric ? "number" : "text") : type);

const crcTable = Array.from({ length: 256 }, (_, i) => {
  let value = i;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value >>> 0;
});

function addCrc(crc, chunk) {
  let value = ~crc >>> 0;
  for (const byte of chunk) value = (crcTable[(value ^ byte) & 255] ^ (value >>> 8)) >>> 0;
  return ~value >>> 0;
}

function base64(chunk) {
  let text = "";
  for (let i = 0; i < chunk.length; i += 32768) text += String.fromCharCode(...chunk.subarray(i, i + 32768));
  return btoa(text);
}

// Makes a call again, later each time, while the server cannot be reached.
async function insist(method, request, onWait, signal) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await call(method, request, { signal, timeout: CHUNK_TIME });
    } catch (error) {
      if (!(error instanceof ApiError && error.retryable)) throw error;
      onWait();
      await pause(backoff(attempt), signal);
    }
  }
}

// Sends a file; resolves to the source that a specification names it by. After an interruption it goes on behind what the
// server has received. onProgress gets the bytes that were sent, and whether there is no connection.
async function upload(file, onProgress, signal) {
  let received = 0, summed = 0, crc = 0; // crc is that of the first `summed` bytes
  const write = (method, request) => insist(`UploadService/${method}`, request, () => onProgress(received, true), signal);
  let { upload: state } = await write("CreateUpload", { fileName: file.name, sizeBytes: String(file.size), requestId: newRequestId() });
  while (state.state !== "UPLOAD_STATE_COMPLETE") {
    const chunk = new Uint8Array(await file.slice(received, received + CHUNK).arrayBuffer());
    const end = received + chunk.length;
    crc = addCrc(crc, chunk.subarray(Math.max(0, summed - received)));
    summed = Math.max(summed, end);
    try {
      ({ upload: state } = await write("WriteUpload", { upload: state.id, offsetBytes: String(received), chunk: base64(chunk),
        ...(end >= file.size && { checksum: `crc32:${crc.toString(16).padStart(8, "0")}` }) }));
    } catch (error) {
      if (error.code !== "out_of_range") throw error; // the server has fewer bytes than it had
      ({ upload: state } = await write("GetUpload", { upload: state.id }));
    }
    received = Number(state.receivedBytes ?? 0);
    onProgress(received, false);
  }
  return `upload:${state.id}`;
}

// onChange gets { sources, columns: { idColumn, ..., ignoredColumns }, preview } whenever something was chosen.
export function poolChooser(signal, onChange) {
  const chosen = { sources: [], columns: {}, preview: null };
  let turn = new AbortController(); // what is under way for the last choice: an upload or a preview
  const files = h("select", { id: "pool-file" }, h("option", { value: "" }, "Choose ..."));
  const status = h("p", { role: "status", class: "muted" });
  const details = h("div");
  const picker = h("input", { type: "file", id: "pool-upload", onchange: () => picker.files[0] && send(picker.files[0]) });
  const sources = h("input", { id: "pool-sources", autocomplete: "off", placeholder: "digits.csv", required: true, "aria-describedby": "pool-sources-hint",
    onchange: () => choose(sources.value.trim().split(/\s+/).filter(Boolean)) });
  files.addEventListener("change", () => files.value && choose([files.value]));
  signal.addEventListener("abort", () => turn.abort());

  // Ends what was under way for an earlier choice, so that it does not take the place of a later one.
  function begin() {
    turn.abort();
    turn = new AbortController();
    return turn.signal;
  }

  async function list(folder = "") {
    const found = [];
    for (let pageToken = ""; ;) {
      const answer = await call("PoolService/ListPoolFiles", { folder, pageSize: 1000, pageToken }, { signal });
      found.push(...(answer.files ?? []));
      pageToken = answer.nextPageToken ?? "";
      if (!pageToken) break;
    }
    return found;
  }

  async function fill() {
    const found = await list().catch((error) => {
      if (error.name !== "AbortError") status.textContent = `The server's pools cannot be listed: ${error.message}`;
      return [];
    });
    const kind = { POOL_FILE_KIND_FOLDER: "folder", POOL_FILE_KIND_IMPORTED_POOL: "imported pool" };
    files.append(...found.map((file) => h("option", { value: file.path }, `${file.path} (${kind[file.kind] ?? bytes(Number(file.sizeBytes ?? 0))})`)));
    if (found.length === 0 && !status.textContent) status.textContent = "The server's folder of pools is empty. Upload a file.";
  }

  async function send(file) {
    try {
      const source = await upload(file, (done, away) => (status.textContent =
        `Uploading ${file.name}: ${bytes(done)} of ${bytes(file.size)}${away ? "; no connection, reconnecting" : ""}`), begin());
      files.value = "";
      await choose([source]);
    } catch (error) {
      if (error.name !== "AbortError") status.textContent = `The upload failed: ${error.message}`;
    }
  }

  async function choose(named) {
    Object.assign(chosen, { sources: named, columns: {}, preview: null });
    sources.value = named.join(" ");
    await preview();
  }

  async function preview() {
    if (chosen.sources.length === 0) return;
    const own = begin();
    status.textContent = "Reading the first rows ...";
    try {
      chosen.preview = await call("PoolService/GetPoolPreview", { sources: chosen.sources, ...chosen.columns }, { signal: own });
      status.textContent = "";
      if (Object.keys(chosen.columns).length === 0) suggest();
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      chosen.preview = null;
      status.textContent = "";
      replace(details, h("p", { class: "problem", role: "alert" }, error.message));
    }
    onChange(chosen);
  }

  // The column with the longest text becomes the payload if no name suggests another; other columns of text are not used.
  function suggest() {
    const columns = chosen.preview.columns ?? [];
    for (const column of columns) if (ROLE_OF[column.role]) give(column.name, ROLE_OF[column.role]);
    const isText = (column) => !column.numeric && /string|binary/.test(column.type);
    const others = columns.filter((column) => (column.role === "COLUMN_ROLE_FEATURE" ? isText(column) : !ROLE_OF[column.role]));
    const length = (column) => (column.examples ?? []).join("").length;
    const [longest] = others.filter(isText).sort((a, b) => length(b) - length(a));
    for (const column of others) give(column.name, column === longest && !chosen.columns.payloadColumn ? "payloadColumn" : "ignoredColumns");
    if (others.length > 0) preview();
  }

  // Each column has one role, and each role one column, except that several can be unused.
  function give(name, role) {
    const unused = new Set(chosen.columns.ignoredColumns);
    unused.delete(name);
    for (const [key, other] of Object.entries(chosen.columns)) if (other === name) delete chosen.columns[key];
    if (role === "ignoredColumns") unused.add(name);
    else if (role) chosen.columns[role] = name;
    if (unused.size > 0) chosen.columns.ignoredColumns = [...unused];
    else delete chosen.columns.ignoredColumns;
  }

  function draw() {
    const view = chosen.preview;
    const columns = view.columns ?? [];
    const roleSelect = (column) => h("select", { "aria-label": `Role of ${column.name}`, onchange: (event) => {
      give(column.name, event.target.value);
      preview();
    } }, ROLES.map(([value, text]) => h("option", { value, selected: (ROLE_OF[column.role] ?? "") === value }, text)));
    const shown = columns.slice(0, 50);
    const few = (view.classes ?? []).slice(0, 12);
    replace(details,
      h("dl", { class: "figures" },
        [["Rows", `${view.rowsKnown ? "" : "more than "}${number(view.rows)}`], ["Columns", number(columns.length)], ["Features", Number(view.features ?? 0) ? number(view.features) : "sparse"],
          view.engine && ["Engine", view.engine.replace("ENGINE_", "").toLowerCase()], view.engine && ["Scores take about", duration(view.roundSeconds ?? 0)]].filter(Boolean)
          .map(([title, value]) => h("div", null, h("dt", null, title), h("dd", null, value)))),
      view.engineReason && h("p", { class: "muted small-text" }, `Engine for the first round, if all rows were of one class: ${view.engineReason}.`),
      (view.warnings ?? []).length > 0 && h("ul", { class: "warnings", role: "status" }, view.warnings.map((text) => h("li", null, text))),
      few.length > 0 && h("p", null, "Known labels: ", few.map((one, i) => [i > 0 && ", ", h("bdi", null, one.value), h("span", { class: "muted" }, ` (${number(one.rows)})`)])),
      h("div", { class: "scroll", tabIndex: 0, role: "region", "aria-label": "Columns of the pool" }, h("table", { class: "columns" },
        h("thead", null, h("tr", null, ["Column", "Role", "Type", "First values"].map((title) => h("th", { scope: "col" }, title)))),
        h("tbody", null, shown.map((column) => h("tr", null, h("td", null, h("bdi", null, column.name)), h("td", null, roleSelect(column)), h("td", { class: "muted word" }, typeOf(column)),
          h("td", null, (column.examples ?? []).slice(0, 3).map((text) => h("code", { class: "example" }, text.slice(0, 40))))))))),
      columns.length > shown.length && h("p", { class: "muted" }, `and ${number(columns.length - shown.length)} more columns`));
  }

  fill();
  return h("fieldset", { class: "card" }, h("legend", null, "1. The pool"),
    h("div", { class: "form-grid" },
      h("div", null, h("label", { htmlFor: "pool-file" }, "On the server"), files),
      h("div", null, h("label", { htmlFor: "pool-upload" }, "Or upload a file"), picker),
      h("div", null, h("label", { htmlFor: "pool-sources" }, "Sources"), sources, h("span", { id: "pool-sources-hint", class: "muted" }, "files, folders or globs, separated by spaces"))),
    status, details, actionButton("Read it again", preview, { class: "small quiet" }));
}
