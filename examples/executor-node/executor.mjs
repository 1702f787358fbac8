// Executes nodes of anabranch in Node.js: `node executor.mjs HANDLERS.mjs`, with ANABRANCH_BROKER_URL set.
// A handler is an exported function `async (config, context, job) => output` with the name of its node type.
// docs/executors.md describes the protocol. A lost connection ends the process: have it started again.
import { hostname } from "node:os";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import amqp from "amqplib";
import { failed, masked, outcome, refused } from "./job.mjs";

const { ANABRANCH_BROKER_URL, ANABRANCH_POOLS = "default", ANABRANCH_CONCURRENCY = "8" } = process.env;
const GRACE_MS = 25_000; // for jobs under way, once this process is to end
const KEPT_MAX = 100; // results, of 1 MB at most as a rule
const HIGH_IN_A_ROW_MAX = 10; // then a job of normal priority has its turn
const handlers = await import(pathToFileURL(resolve(process.argv[2])));
const executor = `${hostname()}-${process.pid}`;
const running = new Map(); // jobs from their arrival to their result, by jobID
const ended = new Map(); // the results of the last jobs
const returned = new Set(); // publications that nobody awaits
const taken = new Set(); // messages until they are acknowledged
const consumers = [];
const waiting = { high: [], normal: [] }; // jobs without a place
let places = Number(ANABRANCH_CONCURRENCY);
let [highInARow, published, stopping] = [0, 0, false];

const connection = await amqp.connect(ANABRANCH_BROKER_URL);
connection.on("error", (error) => console.error(`the broker is lost: ${error.message}`));
connection.on("close", () => process.exit(stopping ? 0 : 1));
const channel = await connection.createConfirmChannel();
channel.on("return", (message) => returned.add(message.properties.messageId)); // before it is confirmed

const publish = (queue, raw, options) =>
  new Promise((done, fail) => channel.publish("", queue, raw, options, (error) => (error ? fail(error) : done())));

/** Publish a report without the job's secrets; whether somebody awaits it. */
async function report({ job, secrets }, kind, body) {
  const raw = JSON.stringify({ protocol: 1, jobID: job.jobID, kind, ...masked(body, secrets) });
  const messageId = String((published += 1));
  await publish(`anabranch.reports.${job.replyTo}`, Buffer.from(raw), { mandatory: true, messageId });
  return !returned.delete(messageId);
}

/** The result of the handler, or why it is not called; null: the job was cancelled. */
async function result(current, deliveries) {
  const { job, abort } = current;
  if (abort.signal.aborted) return null;
  if (deliveries >= 5) return failed(refused("EXECUTOR_LOST", `${deliveries} executors ended with it`));
  if (Object.hasOwn(handlers, job.type)) return outcome(handlers[job.type], current, report);
  return failed(refused("UNKNOWN_NODE_TYPE", `there is no handler of ${job.type} here`));
}

/** Give places to jobs that wait, those of high priority first, but after ten of these to a normal one. */
function assignPlaces() {
  const { high, normal } = waiting;
  while ((places > 0 || stopping) && high.length + normal.length > 0) {
    const isHigh = high.length > 0 && (normal.length === 0 || highInARow < HIGH_IN_A_ROW_MAX);
    highInARow = isHigh ? highInARow + 1 : 0;
    if (!stopping) places -= 1;
    (isHigh ? high : normal).shift()(!stopping);
  }
}

/** From `started` to the result; whether there is one. */
async function execute(current, { content, fields, properties }) {
  const { job, abort } = current;
  if (!(await report(current, "started", { executor }))) return false;
  const begins = new Promise((begin) => waiting[job.priority === "high" ? "high" : "normal"].push(begin));
  assignPlaces();
  if (!(await begins)) {
    // As a new message: the broker counts executors that end with a job. Another one gets it.
    if (!abort.signal.aborted) await publish(fields.routingKey, content, { persistent: true });
    return false;
  }
  const found = await result(current, properties.headers["x-delivery-count"] ?? 0);
  places += 1;
  assignPlaces();
  if (found === null) return false;
  ended.set(job.jobID, masked(found, current.secrets));
  if (ended.size > KEPT_MAX) ended.delete(ended.keys().next().value);
  await report(current, "result", found);
  return true;
}

/** Whether a repetition of a job has been answered, with the result of the first one, kept or to come. */
async function answered(job) {
  for (let known; (known = running.get(job.jobID)); ) {
    const isUnderWay = !known.abort.signal.aborted;
    if (isUnderWay) known.job = job; // the newest sender gets the result
    if ((await known.done) && isUnderWay) return true;
  } // without a result it was cancelled, or nobody awaited it: that of the repetition may
  const kept = ended.get(job.jobID);
  if (kept) await report({ job }, "result", kept);
  return kept !== undefined;
}

/** A message of a pool; it is acknowledged when the result is confirmed. */
async function accept(message) {
  let job;
  try {
    job = JSON.parse(message.content);
    if (job.protocol !== 1) throw new Error(`it is of protocol ${job.protocol}`);
  } catch (error) {
    console.error(`a job cannot be read and goes to anabranch.dead: ${error.message}`);
    return channel.reject(message, false);
  }
  if (!(await answered(job))) {
    const current = { job, abort: new AbortController(), lines: 0 };
    running.set(job.jobID, current);
    current.done = execute(current, message).finally(() => running.delete(job.jobID));
    await current.done;
  }
  channel.ack(message);
}

function take(message) {
  const accepting = accept(message).finally(() => taken.delete(accepting));
  taken.add(accepting);
}

/** Take no further jobs, give back those without a place, and end when the others have, or after the grace. */
async function stop() {
  setTimeout(() => process.exit(0), GRACE_MS).unref(); // then the broker gives what is under way to others
  await Promise.all(consumers.map((tag) => channel.cancel(tag)));
  stopping = true;
  assignPlaces();
  await Promise.all(taken);
  await channel.close(); // by itself: acknowledgements may be lost with a connection that is closed at once
  await connection.close();
}

const cancel = (ticket) => running.forEach(({ job, abort }) => job.ticket === ticket && abort.abort());
function search({ replyTo, jobs }) {
  for (const { jobID, ticket } of jobs) {
    const [known, kept] = [running.get(jobID), ended.get(jobID)];
    const isAwaited = known && !known.abort.signal.aborted;
    if (isAwaited) known.job = { ...known.job, replyTo, ticket };
    if (kept) report({ job: { jobID, replyTo } }, "result", kept);
    else if (isAwaited) report(known, "started", { executor });
  }
}
const told = { "anabranch.cancelled": cancel, "anabranch.sought": (raw) => search(JSON.parse(raw)) };
for (const [exchange, act] of Object.entries(told)) {
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.assertExchange(exchange, "fanout");
  await channel.bindQueue(queue, exchange, "");
  await channel.consume(queue, ({ content }) => act(content.toString()), { noAck: true });
}
await channel.prefetch(places);
const dead = { "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "anabranch.dead" };
const kept = { "x-queue-type": "quorum", "x-delivery-limit": 20, "x-consumer-timeout": 604_800_000, ...dead };
for (const pool of ANABRANCH_POOLS.split(",").flatMap((each) => [each, `${each}.high`])) {
  await channel.assertQueue(`anabranch.jobs.${pool}`, { arguments: kept });
  consumers.push((await channel.consume(`anabranch.jobs.${pool}`, take)).consumerTag);
}
setInterval(() => running.forEach((each) => report(each, "beat")), 5_000).unref();
process.once("SIGTERM", stop).once("SIGINT", stop);
console.log(`executor ${executor} takes jobs of ${ANABRANCH_POOLS}`);
