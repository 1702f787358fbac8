// One job, from what it refers to until its handler has ended: called by executor.mjs.
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const { ANABRANCH_URL, ANABRANCH_TOKEN: key } = process.env; // who hands out secrets and large values
const server = ANABRANCH_URL && new URL(ANABRANCH_URL);
const isSafe = !server || server.protocol === "https:" || ["127.0.0.1", "localhost", "[::1]"].includes(server.hostname);
if (!isSafe) throw new Error("secrets cross a network by https only: set ANABRANCH_URL to an https address");
const LINES_MAX = 500; // of a job, that the broker has not confirmed; further ones are dropped
const LINE_CHARACTERS_MAX = 4096;

export const failed = ({ code = "HANDLER_ERROR", message, retryable = true, stack = "" }) => {
  return { status: "failed", error: { code, type: "Error", message, traceback: stack }, retryable };
};
export const refused = (code, message) => Object.assign(new Error(message), { code, retryable: false, stack: "" });

/** Run the handler within its limits: a result, or null once the job is cancelled. */
export function outcome(handler, current, report) {
  const { job, abort } = current;
  const timers = {};
  const execution = new Promise((end) => {
    const limit = (code, ms) => {
      clearTimeout(timers[code]);
      if (ms) timers[code] = setTimeout(() => end(failed({ code, message: `it took longer than ${ms} ms` })), ms);
    };
    const line = async (text, level = 20) => {
      if (current.lines >= LINES_MAX) return; // the result must not wait for them
      current.lines += 1;
      await report(current, "line", { level, text: String(text).slice(0, LINE_CHARACTERS_MAX) });
      current.lines -= 1;
    };
    const progress = (done, total = null, text = "") => {
      limit("HEARTBEAT_TIMEOUT", job.heartbeatTimeoutMs);
      return report(current, "progress", { done, total, text });
    };
    abort.signal.addEventListener("abort", () => end(null));
    complete(current)
      .then(({ config, context }) => {
        limit("NODE_TIMEOUT", job.timeoutMs);
        limit("HEARTBEAT_TIMEOUT", job.heartbeatTimeoutMs);
        return handler(config, context, { ...job, line, progress, signal: abort.signal });
      })
      .then((output = null) => end({ status: "completed", output, nextHandle: null, queueDelayMs: null }))
      .catch((error) => end(failed(error)));
  });
  return execution.finally(() => {
    Object.values(timers).forEach(clearTimeout);
    abort.abort(); // whatever the handler still does is in vain
  });
}

/** Config and context, with the secrets and large values that the job only refers to. */
async function complete(current) {
  const { tenantID, instanceID, pool, jobID, sealed, parts, config, context } = current.job;
  const whole = { config, context };
  if (sealed) {
    const opened = JSON.parse(await asked(current, "/v1/jobs/config", { tenantID, instanceID, pool, jobID, sealed }));
    whole.config = opened.config;
    current.secrets = Object.values(opened.secrets).sort((a, b) => b.length - a.length);
  }
  for (const { at, sha256 } of parts ?? []) {
    const raw = await asked(current, `/v1/values/${sha256}?${new URLSearchParams({ tenantID, instanceID })}`);
    const found = createHash("sha256").update(raw).digest("hex");
    if (found !== sha256) throw refused("VALUE_MISSING", `what the server has as ${sha256} is another value`);
    at.slice(0, -1).reduce((place, step) => place[step], whole)[at.at(-1)] = JSON.parse(raw);
  }
  return whole;
}

/** What the server answers; while it does not, ask again. */
async function asked({ abort: { signal } }, path, form) {
  if (!server || !key) throw refused("EXECUTOR_REFUSED", "this executor has no server and key to ask");
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = form && JSON.stringify(form);
  const request = { method: form ? "POST" : "GET", body, headers, redirect: "error", signal };
  for (;;) {
    const answer = await fetch(server.href.replace(/\/$/, "") + path, request).catch(() => ({ status: 503 }));
    if (answer.status === 200) return Buffer.from(await answer.arrayBuffer());
    if (answer.status !== 429 && answer.status < 500) throw refused("EXECUTOR_REFUSED", await answer.text());
    await sleep(1_000, null, { signal });
  }
}

/** The same value with the job's secrets masked in all texts. */
export function masked(value, secrets = []) {
  const inText = (text) => secrets.reduce((found, secret) => found.replaceAll(secret, "***"), text);
  const mask = (_, each) => (typeof each === "string" ? inText(each) : each);
  return secrets.length > 0 ? JSON.parse(JSON.stringify(value, mask)) : value;
}
