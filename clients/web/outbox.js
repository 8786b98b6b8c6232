// Answers that are on their way, of all campaigns.
//
// An answer is written to the browser's storage before it is sent and removed when the server has acknowledged it; it
// is sent with the same request id until then, also after the tab or the browser was closed, and whatever screen is
// open. So no answer is lost, and none counts twice. Answers of one annotator in one campaign are sent in their order.

import { ApiError, backoff, call, newRequestId, pause } from "./api.js";

const PREFIX = "fulcrum/outbox/";
const HISTORY = "fulcrum/history/";
const SEND_TIME = 30000;
const TEMPORARY = [8, 14]; // RESOURCE_EXHAUSTED, UNAVAILABLE

const prefixOf = (campaign, annotator) => `${PREFIX}${campaign}/${annotator}/`;
const keysWith = (prefix) => Object.keys(localStorage).filter((key) => key.startsWith(prefix));

// Earlier answers are kept to be looked at; new ones are more important.
function dropHistories() {
  for (const key of keysWith(HISTORY)) localStorage.removeItem(key);
}

// Events: "sent" and "refused" with detail { campaign, annotator, itemId, message }, and "change" if the connection was
// lost or found.
class Outbox extends EventTarget {
  #kept = new Map(); // what the browser's storage has no room for, by key
  #sending = new Set(); // prefixes
  #halt = new AbortController();
  offline = false;

  // Answers that the server has not acknowledged; all campaigns and annotators if none is named.
  unsent(campaign, annotator) {
    const prefix = campaign === undefined ? PREFIX : annotator === undefined ? `${PREFIX}${campaign}/` : prefixOf(campaign, annotator);
    return this.#keys(prefix).length;
  }

  // Whether the annotator's answer about this item is on its way.
  has(campaign, annotator, itemId) {
    return this.#keys(prefixOf(campaign, annotator)).some((key) =>
      this.#read(key)?.request.labels?.some((label) => label.itemId === itemId));
  }

  post(campaign, annotator, method, parts) {
    const request = { campaign, annotator, requestId: newRequestId(), ...parts };
    const key = `${prefixOf(campaign, annotator)}${String(Date.now()).padStart(15, "0")}-${request.requestId}`;
    this.#write(key, JSON.stringify({ method, request }));
    this.#send(campaign, annotator);
  }

  // Sends what earlier visits left, in all campaigns. With tokens the caller can only send its own answers.
  flush(annotator) {
    for (const key of this.#keys(PREFIX)) {
      const { request } = this.#read(key) ?? {};
      if (request && (annotator === undefined || request.annotator === annotator)) this.#send(request.campaign, request.annotator);
    }
  }

  // The annotator signed out: answers stay until their annotator is back.
  halt() {
    this.#halt.abort();
    this.#halt = new AbortController();
  }

  #keys(prefix) {
    return [...keysWith(prefix), ...[...this.#kept.keys()].filter((key) => key.startsWith(prefix))].sort();
  }

  #read(key) {
    const text = this.#kept.get(key) ?? localStorage.getItem(key);
    return text === null ? null : JSON.parse(text);
  }

  #write(key, text) {
    for (const attempt of [() => {}, dropHistories]) {
      attempt();
      try {
        return localStorage.setItem(key, text);
      } catch {
        // The storage is full.
      }
    }
    this.#kept.set(key, text);
  }

  #remove(key) {
    this.#kept.delete(key);
    localStorage.removeItem(key);
  }

  #tell(type, request, message) {
    const itemId = request.labels?.[0]?.itemId ?? request.changes?.[0]?.itemId ?? "";
    this.dispatchEvent(new CustomEvent(type, { detail: { campaign: request.campaign, annotator: request.annotator, itemId, message } }));
  }

  #setOffline(offline) {
    if (this.offline === offline) return;
    this.offline = offline;
    this.dispatchEvent(new Event("change"));
  }

  async #send(campaign, annotator) {
    const prefix = prefixOf(campaign, annotator), signal = this.#halt.signal;
    if (this.#sending.has(prefix)) return;
    this.#sending.add(prefix);
    for (let attempt = 0; !signal.aborted;) {
      const key = this.#keys(prefix)[0];
      const entry = key && this.#read(key);
      if (key === undefined) break;
      if (!entry) continue; // another tab has sent it
      const { method, request } = entry;
      try {
        const answer = await call(`LabelingService/${method}`, request, { timeout: SEND_TIME, signal });
        const result = answer.results?.[0];
        const status = result?.status ?? result ?? {};
        if (TEMPORARY.includes(status.code)) throw new ApiError("unavailable", status.message);
        this.#remove(key);
        attempt = 0;
        this.#setOffline(false);
        if (status.code) this.#tell("refused", request, status.message);
        this.#tell("sent", request);
      } catch (error) {
        if (error.name === "AbortError" || error.code === "unauthenticated") break;
        if (error instanceof ApiError && !error.retryable) {
          this.#remove(key);
          this.#tell("refused", request, error.message);
          continue;
        }
        this.#setOffline(true);
        await pause(backoff(attempt++), signal);
      }
    }
    this.#sending.delete(prefix);
  }
}

export const outbox = new Outbox();
