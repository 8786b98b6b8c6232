// The work of one annotator for one campaign: tasks that are ready, answers that are on their way, leases.
//
// An answer is written to the browser's storage before it is sent and removed when the server has acknowledged it; it
// is sent with the same request id until then, also after the tab or the browser was closed. So no answer is lost, and
// none counts twice.

import { ApiError, backoff, call, newRequestId, pause } from "./api.js";

const READY = 5; // tasks to hold, the one on the screen included
const WAIT = "20s"; // of one call, if there are no tasks
const IDLE_TIME = 5 * 60 * 1000; // after which the tasks are released
const HISTORY = 50;

const outboxPrefix = (campaign, annotator) => `fulcrum/outbox/${campaign}/${annotator}/`;
const historyKey = (campaign, annotator) => `fulcrum/history/${campaign}/${annotator}`;

export class Work extends EventTarget {
  #stop = new AbortController();
  #activity = Date.now();
  #sending = false;
  #wake = null;
  #renewTimer = 0;

  constructor(campaign, annotator) {
    super();
    this.campaign = campaign;
    this.annotator = annotator;
    this.tasks = []; // the first one is on the screen
    this.waitingFor = [];
    this.over = false;
    this.offline = false;
    this.idle = false;
    this.failure = null;
    this.answered = 0;
    this.history = JSON.parse(localStorage.getItem(historyKey(campaign, annotator)) ?? "[]");
  }

  start() {
    this.#acquire();
    this.#send();
    for (const event of ["keydown", "pointerdown", "visibilitychange"]) {
      addEventListener(event, () => this.#noteActivity(), { signal: this.#stop.signal });
    }
    addEventListener("pagehide", () => this.#leave(), { signal: this.#stop.signal });
  }

  // Leaves the campaign: what is not answered is released.
  stop() {
    if (this.#stop.signal.aborted) return;
    this.#leave();
    this.#stop.abort();
    clearTimeout(this.#renewTimer);
  }

  get unsent() {
    return Object.keys(localStorage).filter((key) => key.startsWith(this.#prefix)).length;
  }

  answer(task, value) {
    this.#post("SubmitLabels", {
      labels: [{ lease: { leaseId: task.leaseId, epoch: task.epoch }, itemId: task.itemId, value }],
    });
    this.answered += 1;
    this.#remember(task, value);
    this.#finish(task);
  }

  change(entry, value) {
    this.#post("ChangeLabels", { changes: [{ itemId: entry.itemId, value }] });
    entry.value = value;
    this.#storeHistory();
  }

  skip(task, reason) {
    this.#post("SkipTasks", { skips: [{ lease: { leaseId: task.leaseId, epoch: task.epoch }, reason }] });
    this.#finish(task);
  }

  get #prefix() {
    return outboxPrefix(this.campaign, this.annotator);
  }

  #changed() {
    if (!this.#stop.signal.aborted) this.dispatchEvent(new Event("change"));
  }

  #remember(task, value) {
    const { payload, itemId, classes } = task;
    this.history.unshift({ itemId, value, classes, payload: (payload ?? "").length < 20000 ? payload : "" });
    this.history.length = Math.min(this.history.length, HISTORY);
    this.#storeHistory();
  }

  #storeHistory() {
    try {
      localStorage.setItem(historyKey(this.campaign, this.annotator), JSON.stringify(this.history));
    } catch {
      this.history.length = Math.min(this.history.length, 10); // the storage is full; answers are more important
    }
  }

  #finish(task) {
    this.tasks = this.tasks.filter((other) => other !== task);
    this.#wake?.();
    this.#changed();
  }

  // ---- tasks

  async #acquire() {
    let order = null;
    for (let attempt = 0; !this.#stop.signal.aborted;) {
      if (this.over || this.idle || this.tasks.length >= READY - 1) {
        await new Promise((resolve) => (this.#wake = resolve));
        continue;
      }
      // A call whose answer was lost is repeated unchanged, and returns the same tasks.
      order ??= { campaign: this.campaign, annotator: this.annotator, requestId: newRequestId(),
        maxTasks: READY - this.tasks.length, wait: this.tasks.length > 0 ? "0s" : WAIT };
      try {
        const answer = await call("LabelingService/AcquireTasks", order, { signal: this.#stop.signal });
        order = null;
        attempt = 0;
        this.#take(answer);
        // The round has no more tasks for now; the next answer may be the one that completes it.
        if (this.tasks.length > 0 && !answer.tasks?.length) {
          await Promise.race([pause(1000, this.#stop.signal), new Promise((resolve) => (this.#wake = resolve))]);
        }
      } catch (error) {
        if (error.name === "AbortError") return;
        this.#fail(error);
        if (!(error instanceof ApiError) || !error.retryable) return;
        await pause(backoff(attempt++), this.#stop.signal);
      }
    }
  }

  #take(answer) {
    this.offline = false;
    this.failure = null;
    this.over = answer.campaignOver === true;
    this.waitingFor = answer.waitingFor ?? [];
    const taken = Date.now();
    for (const task of answer.tasks ?? []) {
      if (this.tasks.some((other) => other.leaseId === task.leaseId)) continue;
      task.leaseTime = new Date(task.expiresAt) - taken;
      this.tasks.push(task);
    }
    this.#scheduleRenewal();
    this.#changed();
  }

  #fail(error) {
    if (error.retryable) this.offline = true;
    else this.failure = error;
    this.#changed();
  }

  #noteActivity() {
    this.#activity = Date.now();
    if (!this.idle) return;
    this.idle = false;
    this.#wake?.();
    this.#changed();
  }

  // ---- leases

  #scheduleRenewal() {
    clearTimeout(this.#renewTimer);
    if (this.tasks.length === 0 || this.#stop.signal.aborted) return;
    // The clocks of server and browser may differ, so that the time is only believed within limits.
    const shortest = Math.min(...this.tasks.map((task) => task.leaseTime));
    this.#renewTimer = setTimeout(() => this.#renew(), Math.min(60000, Math.max(1000, shortest / 3)));
  }

  async #renew() {
    if (Date.now() - this.#activity > IDLE_TIME) {
      this.#release();
      this.tasks = [];
      this.idle = true;
      return this.#changed();
    }
    const renewed = [...this.tasks];
    try {
      const answer = await call("LabelingService/RenewLeases", {
        campaign: this.campaign, annotator: this.annotator, requestId: newRequestId(),
        leases: renewed.map(({ leaseId, epoch }) => ({ leaseId, epoch })),
      }, { signal: this.#stop.signal, timeout: 10000 });
      // Another annotator may have a task whose lease ended. The one on the screen stays: a late answer counts as well.
      const ended = new Set(renewed.slice(1).filter((_, i) => (answer.results?.[i + 1]?.status?.code ?? 0) !== 0));
      this.tasks = this.tasks.filter((task) => !ended.has(task));
    } catch (error) {
      if (error.name === "AbortError") return;
    }
    this.#scheduleRenewal();
  }

  #release() {
    if (this.tasks.length === 0) return;
    call("LabelingService/ReleaseTasks", {
      campaign: this.campaign, annotator: this.annotator, requestId: newRequestId(),
      leases: this.tasks.map(({ leaseId, epoch }) => ({ leaseId, epoch })),
    }, { keepalive: true }).catch(() => {}); // otherwise the leases expire
  }

  #leave() {
    this.#release();
    this.tasks = [];
    clearTimeout(this.#renewTimer);
  }

  // ---- answers

  #post(method, parts) {
    const request = { campaign: this.campaign, annotator: this.annotator, requestId: newRequestId(), ...parts };
    const key = `${this.#prefix}${String(Date.now()).padStart(15, "0")}-${request.requestId}`;
    localStorage.setItem(key, JSON.stringify({ method, request }));
    this.#send();
  }

  async #send() {
    if (this.#sending) return;
    this.#sending = true;
    for (let attempt = 0; !this.#stop.signal.aborted;) {
      const key = Object.keys(localStorage).filter((name) => name.startsWith(this.#prefix)).sort()[0];
      if (key === undefined) break;
      const { method, request } = JSON.parse(localStorage.getItem(key));
      try {
        const answer = await call(`LabelingService/${method}`, request, { timeout: 30000 });
        const result = answer.results?.[0];
        const status = result?.status ?? result ?? {};
        const retry = [8, 14].includes(status.code); // RESOURCE_EXHAUSTED, UNAVAILABLE
        if (retry) throw new ApiError("unavailable", status.message);
        localStorage.removeItem(key);
        attempt = 0;
        if (this.offline) this.offline = false;
        if (status.code) this.dispatchEvent(new CustomEvent("refused", { detail: status.message }));
        this.dispatchEvent(new CustomEvent("sent"));
      } catch (error) {
        if (error instanceof ApiError && !error.retryable && error.code !== "unauthenticated") {
          localStorage.removeItem(key);
          this.dispatchEvent(new CustomEvent("refused", { detail: error.message }));
          continue;
        }
        this.offline = true;
        this.#changed();
        await pause(backoff(attempt++), this.#stop.signal);
      }
    }
    this.#sending = false;
    this.#changed();
  }
}
