// OpenWorkflow: `node openworkflow.mjs DATABASE_URL RUNS STEPS LONE_RUNS CONCURRENCY`; ends in one line of JSON.
import { readFileSync } from "node:fs";
import { OpenWorkflow } from "openworkflow";

const SQLITE = "sqlite:///";
const [url, ...numbers] = process.argv.slice(2);
const [runs, steps, loneRuns, concurrency] = numbers.map(Number);

async function open() {
  if (url.startsWith(SQLITE)) {
    const { BackendSqlite } = await import("openworkflow/sqlite");
    return BackendSqlite.connect(url.slice(SQLITE.length));
  }
  const { BackendPostgres } = await import("openworkflow/postgres");
  return BackendPostgres.connect(url);
}

function processorMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

const backend = await open();
const ow = new OpenWorkflow({ backend });
let returned = 0;
let allReturned = () => {};
const flow = ow.defineWorkflow({ name: "steps" }, async ({ input, step }) => {
  let value = input.n;
  for (let number = 0; number < steps; number += 1) {
    value = await step.run({ name: `step-${number}` }, async () => value);
  }
  returned += 1;
  if (returned === runs) allReturned();
  return value;
});

const cpuBefore = processorMs();
const began = performance.now();
const handles = await Promise.all(Array.from({ length: runs }, (_, n) => flow.run({ n })));
const accepted = performance.now();
const worker = ow.newWorker({ concurrency });
const over = new Promise((resolve) => { allReturned = resolve; });
await worker.start();
await over;
const ended = performance.now();
const cpuAfter = processorMs();
await handles[runs - 1].result();

returned = runs; // a lone run is no part of the count
const lone = [];
for (let n = 0; n < loneRuns; n += 1) {
  const started = performance.now();
  await (await flow.run({ n })).result();
  lone.push(performance.now() - started);
}
await worker.stop();
await backend.stop();

const about = JSON.parse(readFileSync(new URL("node_modules/openworkflow/package.json", `file://${process.cwd()}/`)));
console.log(JSON.stringify({
  version: about.version,
  steps_per_s: (runs * steps) / ((ended - began) / 1000),
  starts_per_s: runs / ((accepted - began) / 1000),
  lone_p50_ms: lone.sort((a, b) => a - b)[Math.floor(lone.length / 2)],
  cpu_ms_per_step: (cpuAfter - cpuBefore) / (runs * steps),
}));
