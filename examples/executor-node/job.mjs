// One job, from its message until its handler has ended: called by executor.mjs.
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const { ANABRANCH_URL, ANABRANCH_TOKEN: key } = process.env; // who hands out secrets and large values
const server = ANABRANCH_URL && new URL(ANABRANCH_URL);
const isSafe = !server || server.protocol === "https:" || ["127.0.0.1", "localhost", "[::1]"].includes(server.hostname);
if (!isSafe) throw new Error("secrets cross a network by https only: set ANABRANCH_URL to an https address");
const LINES_MAX = 500; // of a job, that the broker has not confirmed; further ones are dropped
const LINE_CHARACTERS_MAX = 4096;

const failed = ({ code = "HANDLER_ERROR", message, retryable = true, stack = "" }) => {
  return { status: "failed", error: { code, type: "Error", message, traceback: stack }, retryable };
};
const refused = (code, message) => Object.assign(new Error(message), { code, retryable: false, stack: "" });

/** The job of a message, or null: it cannot be read. */
export function parsed(content) {
  try {
    const job = JSON.parse(content);
    if (job.protocol === 1) return job;
    console.error(`a job of protocol ${job.protocol} goes to anabranch.dead`);
  } catch (error) {
    console.error(`a job cannot be read and goes to anabranch.dead: ${error.message}`);
  }
  return null;
}

/** Call the handler within the limits of the job; its result. */
export async function outcome(handler, job, current, deliveries, report) {
  const { signal } = current.abort;
  const timers = {};
  let limit;
  const tooLong = new Promise((end) => {
    limit = (code, ms) => {
      clearTimeout(timers[code]);
      if (ms) timers[code] = setTimeout(() => end(failed({ code, message: `it took longer than ${ms} ms` })), ms);
    };
  });
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
  const completed = async () => {
    if (deliveries >= 5) throw refused("EXECUTOR_LOST", `${deliveries} executors ended with it`);
    if (!handler) throw refused("UNKNOWN_NODE_TYPE", `there is no handler of ${job.type} here`);
    const { config, context } = await complete(job, current);
    limit("NODE_TIMEOUT", job.timeoutMs);
    limit("HEARTBEAT_TIMEOUT", job.heartbeatTimeoutMs);
    const output = await handler(config, context, { ...job, line, progress, signal });
    return { status: "completed", output: output ?? null, nextHandle: null, queueDelayMs: null };
  };
  signal.addEventListener("abort", () => Object.values(timers).forEach(clearTimeout));
  return Promise.race([tooLong, completed().catch(failed)]);
}

/** Config and context, with the secrets and large values that the job only refers to. */
async function complete(job, current) {
  const { tenantID, instanceID, pool, jobID, sealed, parts, config, context } = job;
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
    at.slice(0, -1).reduce((holder, step) => holder[step], whole)[at.at(-1)] = JSON.parse(raw);
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
export function masked(value = {}, secrets = []) {
  const inText = (text) => secrets.reduce((found, secret) => found.replaceAll(secret, "***"), text);
  const mask = (_, each) => (typeof each === "string" ? inText(each) : each);
  return secrets.length > 0 ? JSON.parse(JSON.stringify(value, mask)) : value;
}
