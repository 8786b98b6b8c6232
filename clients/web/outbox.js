// Answers that are on their way, of all campaigns.
//
// An answer is written to the browser's storage before it is sent and removed when the server has acknowledged it; it
// is sent with the same request id until then, also after the tab or the browser was closed, and whatever screen is
// open. So no answer is lost, and none counts twice. Answers of one annotator in one campaign are sent in their order.
//
// An answer that the server refuses is moved to another place of the storage, from where it can be downloaded.

import { ApiError, backoff, call, newRequestId, pause } from "./api.js";
import { dropHistories, loadHistory, storeHistory, takeBack } from "./history.js";

const PREFIX = "fulcrum/outbox/";
const REFUSED = "fulcrum/refused/";
const SEND_TIME = 30000;
const TEMPORARY = [8, 14]; // RESOURCE_EXHAUSTED, UNAVAILABLE

const prefixOf = (campaign, annotator) => `${PREFIX}${campaign}/${annotator}/`;
const keysWith = (prefix) => Object.keys(localStorage).filter((key) => key.startsWith(prefix));

// Events: "sent" and "refused" with detail { campaign, annotator, itemId, message, request, before }, and "change" if the
// connection was lost or found.
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

  // `itemId` is the example; `before` the value that a change replaces.
  post(campaign, annotator, method, parts, { itemId, before } = {}) {
    const request = { campaign, annotator, requestId: newRequestId(), ...parts };
    const key = `${prefixOf(campaign, annotator)}${String(Date.now()).padStart(15, "0")}-${request.requestId}`;
    this.#write(key, JSON.stringify({ method, request, itemId, before }));
    this.#send(campaign, annotator);
  }

  // Answers that the server has refused, of all annotators if none is named: { method, request, itemId, message }.
  refused(annotator) {
    return this.#keys(REFUSED).map((key) => this.#read(key)).filter((entry) => annotator === undefined || entry.request.annotator === annotator);
  }

  dropRefused(annotator) {
    for (const key of this.#keys(REFUSED)) if (annotator === undefined || this.#read(key).request.annotator === annotator) this.#remove(key);
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

  #tell(type, { request, itemId = "", before }, message) {
    const { campaign, annotator } = request;
    this.dispatchEvent(new CustomEvent(type, { detail: { campaign, annotator, itemId, message, request, before } }));
  }

  // The answer was never given, as far as the history is concerned. A refused skip says nothing about the example.
  #refuse(key, entry, message) {
    if (this.#read(key) === null) return; // another tab has seen it
    const { method, request, itemId, before } = entry;
    const { campaign, annotator } = request;
    if (method !== "SkipTasks") {
      const time = key.slice(prefixOf(campaign, annotator).length);
      this.#write(`${REFUSED}${campaign}/${annotator}/${time}`, JSON.stringify({ method, request, itemId, message }));
      const history = loadHistory(campaign, annotator);
      takeBack(history, request, before);
      storeHistory(campaign, annotator, history);
    }
    this.#remove(key);
    this.#tell("refused", entry, message);
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
        const result = answer?.results?.[0];
        if (!result) throw new ApiError("unavailable", "something on the way to the server answered");
        const status = result.status ?? result;
        if (TEMPORARY.includes(status.code)) throw new ApiError("unavailable", status.message);
        if (status.code) this.#refuse(key, entry, status.message);
        else this.#remove(key);
        attempt = 0;
        this.#setOffline(false);
        this.#tell("sent", entry);
      } catch (error) {
        if (error.name === "AbortError" || error.code === "unauthenticated") break;
        if (error instanceof ApiError && !error.retryable) {
          this.#setOffline(false);
          this.#refuse(key, entry, error.message);
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
