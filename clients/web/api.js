// The API of the daemon as JSON over HTTP, by the Connect protocol.

const PREFIX = "/fulcrum.v1.";
const CALL_TIME = 120000;
const GRACE_TIME = 5000;
const RETRYABLE = new Set(["unavailable", "resource_exhausted", "deadline_exceeded", "canceled"]);
const CODES = new Set([...RETRYABLE, "unknown", "invalid_argument", "not_found", "already_exists", "permission_denied", "failed_precondition",
  "aborted", "out_of_range", "unimplemented", "internal", "data_loss", "unauthenticated"]);

export class ApiError extends Error {
  constructor(code, message, details = []) {
    super(message || code);
    this.code = code;
    this.details = details;
  }
  // The same request may succeed later.
  get retryable() {
    return RETRYABLE.has(this.code);
  }
  // What is wrong with which field of a request.
  get fields() {
    const problems = this.details.find((detail) => detail.type === "google.rpc.BadRequest");
    return problems?.debug?.fieldViolations ?? [];
  }
}

export function newRequestId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// An error without a code of the protocol is not an answer of the server, but of a proxy on the way to it.
function errorOf(body, status) {
  if (!CODES.has(body?.code)) return new ApiError("unavailable", `something on the way to the server answered with HTTP ${status}`);
  if (body.code === "unauthenticated") dispatchEvent(new Event("signedout"));
  return new ApiError(body.code, body.message ?? body.code, body.details);
}

// Aborts after the time, and when the signal does.
function limit(signal, milliseconds) {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const timer = milliseconds && setTimeout(abort, milliseconds);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
  return { signal: controller.signal, end: () => {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  } };
}

async function post(path, headers, body, options) {
  try {
    return await fetch(path, { method: "POST", headers, body, credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("unavailable", "the server cannot be reached");
  }
}

// call("CampaignService/GetCampaign", { campaign: "rings" }); options: signal, keepalive, timeout in milliseconds. The
// server gives up after the timeout, and the page a little later, since the connection may be dead.
export async function call(method, request = {}, { timeout, signal, ...options } = {}) {
  const headers = { "Content-Type": "application/json", "Connect-Protocol-Version": "1" };
  if (timeout) headers["Connect-Timeout-Ms"] = String(timeout);
  const limited = limit(signal, (timeout ?? CALL_TIME) + GRACE_TIME);
  try {
    const response = await post(PREFIX + method, headers, JSON.stringify(request), { ...options, signal: limited.signal });
    let body = null;
    try {
      body = await response.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (response.ok) throw new ApiError("unavailable", "the connection was lost");
    }
    if (!response.ok) throw errorOf(body, response.status);
    return body;
  } catch (error) {
    if (error.name === "AbortError" && !signal?.aborted) throw new ApiError("unavailable", "the server does not answer");
    throw error;
  } finally {
    limited.end();
  }
}

function envelope(message) {
  const text = new TextEncoder().encode(JSON.stringify(message));
  const bytes = new Uint8Array(5 + text.length);
  new DataView(bytes.buffer).setUint32(1, text.length);
  bytes.set(text, 5);
  return bytes;
}

// Calls onMessage for every message of a stream; returns at its end.
export async function stream(method, request, onMessage, options = {}) {
  const headers = { "Content-Type": "application/connect+json", "Connect-Protocol-Version": "1" };
  const response = await post(PREFIX + method, headers, envelope(request), options);
  if (!response.ok) throw errorOf(await response.json().catch(() => null), response.status);
  const reader = response.body.getReader();
  let bytes = new Uint8Array();
  for (;;) {
    const part = await reader.read().catch((error) => {
      if (error.name === "AbortError") throw error;
      throw new ApiError("unavailable", "the connection was lost");
    });
    if (part.done) throw new ApiError("unavailable", "the stream ended early");
    const joined = new Uint8Array(bytes.length + part.value.length);
    joined.set(bytes);
    joined.set(part.value, bytes.length);
    bytes = joined;
    while (bytes.length >= 5) {
      const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(1);
      if (bytes.length < 5 + size) break;
      const message = JSON.parse(new TextDecoder().decode(bytes.subarray(5, 5 + size)));
      const last = (bytes[0] & 2) !== 0;
      bytes = bytes.slice(5 + size);
      if (!last) onMessage(message);
      else if (message.error) throw errorOf(message.error);
      else return;
    }
  }
}

// The whole payload of an example.
export async function loadPayload(campaign, itemId, signal) {
  const parts = [];
  await stream("LabelingService/GetPayload", { campaign, itemId },
    (message) => message.chunk && parts.push(Uint8Array.from(atob(message.chunk), (letter) => letter.charCodeAt(0))), { signal });
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

export async function signIn(token) {
  const response = await post("/session", { "Content-Type": "application/json" }, JSON.stringify({ token }));
  const body = await response.json().catch(() => null);
  if (!response.ok) throw errorOf(body, response.status);
  return body;
}

export async function signOut() {
  await fetch("/session", { method: "DELETE", credentials: "same-origin" });
}

// Waits, longer after every failure; ends early when the browser is online again.
export function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    addEventListener("online", end);
    signal?.addEventListener("abort", end, { once: true });
  });
}

// Until the page can be seen. A browser has six connections to a server for all its tabs, so that a hidden one holds none.
export function shown(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

export const backoff = (attempt) => Math.min(10000, 250 * 2 ** attempt) * (0.75 + 0.5 * Math.random());
