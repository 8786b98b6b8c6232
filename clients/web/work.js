// The work of one annotator for one campaign: tasks that are ready, their leases, and what was answered.
//
// Leases are renewed as long as the tasks are held and the annotator is active. A server whose lease has run out may offer the
// same example again: it is then the same task with another lease, never a second copy.

import { ApiError, backoff, call, newRequestId, pause, shown } from "./api.js";
import { loadHistory, storeHistory, takeBack } from "./history.js";
import { outbox } from "./outbox.js";

const READY = 5; // tasks to hold, the one on the screen included
const WAIT = "20s"; // of one call, if there are no tasks
const CALL_TIME = 35000;
const RENEW_TIME = 60000; // at most between two renewals
const IDLE_TIME = 5 * 60 * 1000; // after which the tasks are released
// Somebody is there: "scroll" of any part of the page, and "timeupdate" of a sound or video that plays.
const ACTIVITIES = ["keydown", "pointerdown", "pointermove", "wheel", "scroll", "timeupdate"];
const ACTIVITY_TIME = 1000; // between two that are noted
const ASK_AGAIN_TIME = 15000; // whether a campaign that is over or refuses this annotator has tasks after all
const HISTORY = 50;
const PAYLOADS = 10; // of earlier answers, in memory

export class Work extends EventTarget {
  #stop = new AbortController();
  #asking = new AbortController(); // the call for tasks that is under way
  #activity = Date.now();
  #wake = null;
  #renewTimer = 0;
  #renewAt = Infinity;

  constructor(campaign, annotator) {
    super();
    this.campaign = campaign;
    this.annotator = annotator;
    this.tasks = []; // the first one is on the screen, also if its lease was released because nobody was there
    this.waitingFor = [];
    this.over = false;
    this.offline = false;
    this.idle = false;
    this.failure = null;
    const { answered, answers } = loadHistory(campaign, annotator);
    this.answered = answered;
    this.history = answers; // the latest first: item, value, classes, and of the last ones the payload
  }

  start() {
    const options = { signal: this.#stop.signal };
    this.#acquire();
    outbox.addEventListener("change", () => this.#changed(), options);
    for (const type of ["sent", "refused"]) {
      outbox.addEventListener(type, ({ detail }) => {
        if (detail.campaign !== this.campaign || detail.annotator !== this.annotator) return;
        this.offline = false;
        if (type === "refused") this.#takeBack(detail);
        this.dispatchEvent(new CustomEvent(type, { detail }));
        this.#changed();
        if (this.tasks.length === 0) this.#look();
      }, options);
    }
    for (const event of ACTIVITIES) addEventListener(event, () => this.#noteActivity(), { ...options, capture: true, passive: true });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#asking.abort() : this.#return()), options);
    this.#stop.signal.addEventListener("abort", () => this.#asking.abort());
    addEventListener("pagehide", () => this.#leave(), options);
    addEventListener("pageshow", () => this.#return(), options);
  }

  // Leaves the campaign: what is not answered is released.
  stop() {
    if (this.#stop.signal.aborted) return;
    this.#leave();
    this.#stop.abort();
    this.#wake?.();
  }

  // There is no connection, as far as is known.
  get away() {
    return this.offline || outbox.offline;
  }

  get #held() {
    return this.tasks.filter((task) => !task.released);
  }

  get unsent() {
    return outbox.unsent(this.campaign, this.annotator);
  }

  answer(task, value) {
    outbox.post(this.campaign, this.annotator, "SubmitLabels", {
      labels: [{ lease: { leaseId: task.leaseId, epoch: task.epoch }, itemId: task.itemId, value }],
    }, { itemId: task.itemId });
    this.answered += 1;
    this.#remember(task, value);
    this.#finish(task);
  }

  change(entry, value) {
    outbox.post(this.campaign, this.annotator, "ChangeLabels", { changes: [{ itemId: entry.itemId, value }] }, { itemId: entry.itemId, before: entry.value });
    entry.value = value;
    this.#storeHistory();
  }

  skip(task, reason) {
    outbox.post(this.campaign, this.annotator, "SkipTasks", { skips: [{ lease: { leaseId: task.leaseId, epoch: task.epoch }, reason }] },
      { itemId: task.itemId });
    this.#finish(task);
  }

  #changed() {
    if (!this.#stop.signal.aborted) this.dispatchEvent(new Event("change"));
  }

  #remember({ payload, itemId, classes, largePayloadBytes }, value) {
    this.history = this.history.filter((entry) => entry.itemId !== itemId);
    this.history.unshift({ itemId, value, classes, payload: largePayloadBytes ? undefined : payload ?? "" });
    this.history.length = Math.min(this.history.length, HISTORY);
    if (this.history.length > PAYLOADS) delete this.history[PAYLOADS].payload;
    this.#storeHistory();
  }

  #storeHistory() {
    storeHistory(this.campaign, this.annotator, { answered: this.answered, answers: this.history });
  }

  #takeBack({ request, before }) {
    const history = { answered: this.answered, answers: this.history };
    takeBack(history, request, before);
    Object.assign(this, { answered: history.answered, history: history.answers });
    this.#storeHistory();
  }

  #finish(task) {
    this.tasks = this.tasks.filter((other) => other !== task);
    this.#wake?.();
    this.#changed();
  }

  // ---- tasks

  async #acquire() {
    let order = null, empty = false;
    for (let attempt = 0; !this.#stop.signal.aborted;) {
      if (this.idle || this.#held.length >= READY - 1) {
        await this.#woken();
        continue;
      }
      // A call whose answer was lost is repeated unchanged, and returns the same tasks. If there are none, the next call
      // waits, also if some tasks are left: at the end of a round the next answer may be the one that completes it.
      order ??= this.#order(empty ? WAIT : "0s");
      try {
        await shown(this.#stop.signal);
        this.#asking = new AbortController();
        if (this.#stop.signal.aborted) return;
        const answer = await call("LabelingService/AcquireTasks", order, { signal: this.#asking.signal, timeout: CALL_TIME });
        order = null;
        attempt = 0;
        this.#take(answer);
        empty = !answer.tasks?.length;
        if (this.over) await this.#woken(ASK_AGAIN_TIME); // its budget may be extended
      } catch (error) {
        if (error.name === "AbortError") continue; // the page is hidden or left
        const retryable = error instanceof ApiError && error.retryable;
        this.offline = retryable;
        this.failure = retryable ? null : error;
        this.#changed();
        if (retryable) {
          await pause(backoff(attempt++), this.#stop.signal);
        } else {
          order = null;
          await this.#woken(ASK_AGAIN_TIME);
        }
      }
    }
  }

  #order(wait) {
    return { campaign: this.campaign, annotator: this.annotator, requestId: newRequestId(), maxTasks: READY - this.#held.length, wait };
  }

  // What the campaign waits for after the last answer, while the other call still waits.
  async #look() {
    const answer = await call("LabelingService/AcquireTasks", this.#order("0s"), { signal: this.#stop.signal, timeout: CALL_TIME }).catch(() => null);
    if (answer) this.#take(answer);
  }

  // Until something changes for the tasks that are wanted, or the time is over.
  #woken(milliseconds) {
    const changed = new Promise((resolve) => (this.#wake = resolve));
    return milliseconds === undefined ? changed : Promise.race([changed, pause(milliseconds, this.#stop.signal)]);
  }

  #take(answer) {
    this.offline = false;
    this.failure = null;
    this.over = answer.campaignOver === true;
    this.waitingFor = answer.waitingFor ?? [];
    const known = (task) => this.tasks.find((other) => other.itemId === task.itemId);
    // An answer that is on its way counts, although its lease has ended.
    const offered = (answer.tasks ?? []).filter((task) => known(task) || !outbox.has(this.campaign, this.annotator, task.itemId));
    if (this.idle || this.#stop.signal.aborted) return this.#release(offered); // the annotator is no longer active
    const now = Date.now();
    for (const task of offered) {
      const { leaseId, epoch, expiresAt } = task;
      Object.assign(known(task) ?? task, { leaseId, epoch, renewAt: this.#renewalOf(expiresAt, now), released: false });
      if (!known(task)) this.tasks.push(task);
    }
    this.#scheduleRenewal();
    this.#changed();
  }

  #noteActivity() {
    if (this.idle) return this.#return();
    if (Math.abs(Date.now() - this.#activity) >= ACTIVITY_TIME) this.#activity = Date.now();
  }

  // The annotator is back, and may see something else than before.
  #return() {
    this.#activity = Date.now();
    this.idle = false;
    this.#wake?.();
    this.#changed();
  }

  // ---- leases

  // When a lease that was taken or renewed now is to be renewed: long before it ends. The clocks of server and browser may
  // differ, so that the server's time is only believed within limits.
  #renewalOf(expiresAt, now) {
    return now + Math.min(RENEW_TIME, Math.max(1000, (new Date(expiresAt) - now) / 3));
  }

  // A renewal that is due earlier is never put off by tasks that arrive later.
  #scheduleRenewal() {
    if (this.#stop.signal.aborted || this.#held.length === 0) return;
    const at = Math.min(...this.#held.map((task) => task.renewAt));
    if (at >= this.#renewAt) return;
    clearTimeout(this.#renewTimer);
    this.#renewAt = at;
    this.#renewTimer = setTimeout(() => {
      this.#renewAt = Infinity;
      this.#renew();
    }, Math.max(0, at - Date.now()));
  }

  async #renew() {
    const renewed = this.#held, now = Date.now();
    if (renewed.length === 0) return;
    if (now - this.#activity > IDLE_TIME) {
      this.#release(renewed);
      // Somebody may still read the one on the screen.
      this.tasks = this.tasks.slice(0, 1);
      for (const task of this.tasks) task.released = true;
      this.idle = true;
      return this.#changed();
    }
    for (const task of renewed) task.renewAt = now + 5000; // if the call fails
    try {
      const { results = [] } = await call("LabelingService/RenewLeases", {
        campaign: this.campaign, annotator: this.annotator, requestId: newRequestId(),
        leases: renewed.map(({ leaseId, epoch }) => ({ leaseId, epoch })),
      }, { signal: this.#stop.signal, timeout: 10000 });
      const shown = this.tasks[0];
      renewed.forEach((task, i) => {
        const { status, expiresAt } = results[i] ?? {};
        if (expiresAt) task.renewAt = this.#renewalOf(expiresAt, now);
        // Another annotator may have a task whose lease ended. The one on the screen stays: a late answer counts as well.
        else if (status?.code && task === shown) task.renewAt = Infinity;
        else if (status?.code) this.tasks = this.tasks.filter((other) => other !== task);
      });
    } catch (error) {
      if (error.name === "AbortError") return;
    }
    this.#scheduleRenewal();
    if (this.#held.length < READY - 1) this.#wake?.();
  }

  #release(tasks) {
    if (tasks.length === 0) return;
    call("LabelingService/ReleaseTasks", {
      campaign: this.campaign, annotator: this.annotator, requestId: newRequestId(),
      leases: tasks.map(({ leaseId, epoch }) => ({ leaseId, epoch })),
    }, { keepalive: true }).catch(() => {}); // otherwise the leases expire
  }

  #leave() {
    this.#release(this.#held);
    this.tasks = [];
    clearTimeout(this.#renewTimer);
    this.#renewAt = Infinity;
  }
}
