// The node types that `anabranch.testing.executor_conformance` asks for, for the executor in Node.js.

export async function conformanceEcho(config, context, job) {
  job.line("echo");
  job.progress(1, 2, "half");
  return { config, input: context.input, attempt: job.attempt, idempotencyKey: job.idempotencyKey };
}

export async function conformanceFails({ code, message, retryable }) {
  throw Object.assign(new Error(message), { code, retryable });
}

export async function conformanceWaits({ ms }, context, job) {
  job.line("waits");
  await new Promise((ended) => setTimeout(ended, ms).unref());
  return { waited: ms };
}
