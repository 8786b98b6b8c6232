// What an annotator has answered in a campaign, in the browser's storage: the number of answers, and the latest ones, which
// can be seen and changed. Earlier answers are kept to be looked at; answers that are not sent yet are more important.

const PREFIX = "fulcrum/history/";

const keyOf = (campaign, annotator) => `${PREFIX}${campaign}/${annotator}`;

// { answered, answers: [{ itemId, value, classes }, ...] }, the latest first.
export function loadHistory(campaign, annotator) {
  const { answered = 0, answers = [] } = JSON.parse(localStorage.getItem(keyOf(campaign, annotator)) ?? "{}");
  return { answered, answers };
}

// Without payloads: those are fetched again, and the storage of a browser is small.
export function storeHistory(campaign, annotator, { answered, answers }) {
  const stored = { answered, answers: answers.map(({ itemId, value, classes }) => ({ itemId, value, classes })) };
  try {
    localStorage.setItem(keyOf(campaign, annotator), JSON.stringify(stored));
  } catch {
    localStorage.removeItem(keyOf(campaign, annotator)); // the storage is full
  }
}

// The server has refused a request, which was an answer or the change of one: it is as if it had not been given. `before` is
// the value that was changed.
export function takeBack(history, request, before) {
  for (const { itemId } of request.labels ?? []) {
    history.answered = Math.max(0, history.answered - 1);
    history.answers = history.answers.filter((entry) => entry.itemId !== itemId);
  }
  for (const { itemId, value } of request.changes ?? []) {
    const entry = history.answers.find((one) => one.itemId === itemId);
    if (entry?.value === value && before !== undefined) entry.value = before;
  }
}

export function dropHistories() {
  for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) localStorage.removeItem(key);
}
