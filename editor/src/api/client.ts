/**
 * The REST API, typed by our own OpenAPI document: `call("get_run", { path: { instanceID } })`.
 *
 * `callText` gives the answer as text besides, for values that must be shown or written exactly as they are.
 */

import { currentKey } from "./key";
import { OPERATIONS, type components, type operations } from "./schema";

export type Schemas = components["schemas"];

/** Operations that the document has. */
export type Operation = keyof typeof OPERATIONS & keyof operations;

type Parameters<O extends Operation> = operations[O]["parameters"];
type Body<O extends Operation> = operations[O] extends { requestBody?: { content: { "application/json": infer B } } } ? B : unknown;
type Responses<O extends Operation> = operations[O]["responses"];
type Success<R> = { [S in keyof R]: S extends 200 | 201 | 202 ? (R[S] extends { content: { "application/json": infer J } } ? J : null) : never }[keyof R];

/** What an operation answers with when it succeeds. */
export type Answer<O extends Operation> = Success<Responses<O>>;

export interface Request<O extends Operation> {
  path?: Parameters<O> extends { path: infer P } ? P : undefined;
  /** Values that are null, undefined or "" are left out; lists are repeated. */
  query?: Parameters<O> extends { query?: infer Q } ? NonNullable<Q> & Record<string, unknown> : Record<string, unknown>;
  body?: Body<O>;
  /** The body as JSON text, where it has to be sent as it is. */
  bodyText?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Place {
  code?: string;
  message?: string;
  pointer?: string;
  path?: string;
}

/** A refusal of the server, or its silence (`status` 0), in words for the person who reads. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;
  readonly details: unknown;

  constructor(status: number, fields: { code?: string; message?: string; hint?: string | null; details?: unknown } | null) {
    super(fields?.message || `the server answered with ${status}`);
    this.status = status;
    this.code = fields?.code ?? "";
    this.hint = fields?.hint ?? "";
    this.details = fields?.details ?? null;
  }

  /** What happened and what to do, as one text. */
  get advice(): string {
    return [this.message, this.hint].filter(Boolean).map(sentence).join(" ");
  }

  /** The places that the refusal names, if it does. */
  get places(): Place[] {
    return Array.isArray(this.details) ? (this.details as Place[]) : [];
  }

  get isOffline(): boolean {
    return this.status === 0;
  }
}

export interface TextAnswer<T> {
  readonly value: T;
  readonly text: string;
  readonly headers: Headers;
}

/** The JSON answer of an operation. Throws `ApiError` otherwise. */
export async function call<O extends Operation>(operation: O, request: Request<O> = {}): Promise<Answer<O>> {
  return (await callText(operation, request)).value;
}

/** The answer of an operation as JSON and as the text that it came as. Throws `ApiError` otherwise. */
export async function callText<O extends Operation>(operation: O, request: Request<O> = {}): Promise<TextAnswer<Answer<O>>> {
  const [method, template] = OPERATIONS[operation];
  const path = fillPath(template, (request.path ?? {}) as Record<string, string>);
  return send<Answer<O>>(method, withQuery(path, request.query ?? {}), {
    ...request,
    bodyText: request.bodyText ?? (request.body === undefined ? undefined : JSON.stringify(request.body)),
  });
}

let report: (failure: unknown) => void = () => undefined;

/** Be told how each request ended: null if it was answered. */
export function watchOutcomes(watcher: (failure: unknown) => void): void {
  report = watcher;
}

async function send<T>(
  method: string,
  path: string,
  { bodyText, headers, signal }: { bodyText?: string; headers?: Record<string, string>; signal?: AbortSignal },
): Promise<TextAnswer<T>> {
  const key = currentKey() ?? "";
  // A byte that HTTP headers cannot carry makes fetch throw, and such a key is none.
  if (!/^[\x21-\x7e]+$/.test(key)) throw new ApiError(401, { message: "this is not an API key" });
  const sent: Record<string, string> = { Authorization: `Bearer ${key}`, ...headers };
  if (bodyText !== undefined) sent["Content-Type"] = "application/json";
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(path, { method, headers: sent, body: bodyText ?? null, signal: signal ?? null });
    text = await answer.text();
  } catch (failure) {
    if (signal?.aborted) throw failure;
    throw reported(new ApiError(0, { message: "the server does not answer", hint: "This page goes on trying." }));
  }
  noteServerDate(answer.headers.get("Date"));
  const value = parsed(text);
  if (!answer.ok) throw reported(new ApiError(answer.status, (value as { error?: { message: string } } | null)?.error ?? null));
  report(null);
  return { value: value as T, text, headers: answer.headers };
}

function reported(failure: ApiError): ApiError {
  report(failure);
  return failure;
}

let serverAheadMs = 0;

/** The time of the server: waits and schedules are shown by its clock, whatever this machine's says. */
export function serverNow(): number {
  return Date.now() + serverAheadMs;
}

function noteServerDate(date: string | null): void {
  const told = date === null ? Number.NaN : Date.parse(date);
  // The header has whole seconds: a smaller difference is none.
  if (!Number.isNaN(told) && Math.abs(told - serverNow()) > 1500) serverAheadMs = told - Date.now();
}

function parsed(text: string): unknown {
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

function fillPath(template: string, values: Record<string, string>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
}

function withQuery(path: string, values: Record<string, unknown>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined && item !== "") query.append(name, String(item));
    }
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}

function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}
