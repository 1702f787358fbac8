/** One open workflow: its document and history, what the validator says, its draft, and the test run that is shown. */

import { createStore, type StoreApi } from "zustand/vanilla";

import { ApiError, call, callText } from "../../api/client";
import { DraftSaver, openDraft, openDraftOf, type OpenedDraft } from "../../api/drafts";
import { readOutbox, removeFromOutbox } from "../../api/outbox";
import { CanvasModel } from "../../canvas/CanvasModel";
import { layOutCanvas } from "../../canvas/layout";
import { NodeTypes, type NodeType } from "../../canvas/nodeTypes";
import type { Pins } from "../../canvas/pins";
import type { ShownRun } from "../../canvas/run";
import { verdictOf, type ValidateAnswer } from "../../canvas/validation";
import { EditStore, replaceWithSameKeys } from "../../edit";
import { entriesOf, memberText, setMember, shownScalar } from "../../json";
import { LayoutCancelled } from "../../layout";
import { hashOf, merge3, readDocument, withLayout, writeDocument, type WorkflowDocument } from "../../model";
import { RunStore, type UpdateMessage } from "../../run";
import type { JsonSchema } from "../../ui/forms/schema";
import { toast } from "../../ui/toasts";
import { useSession } from "../session";

/** Who types for this long without a pause has the validator's answer late, and none of ours is asked in vain. */
const VALIDATE_AFTER_MS = 150;

/** A drag writes the document once per frame; what is kept of it need not. */
const KEEP_AFTER_MS = 100;

/** Answers about documents that one comes back to by undo. */
const ANSWERS_KEPT = 20;

export interface WorkflowHead {
  readonly workflowID: string;
  readonly name: string;
  readonly title: string | null;
  readonly version: number;
  readonly kind: "drawn" | "coded";
}

export interface Opened {
  readonly workflow: WorkflowHead | null;
  readonly draft: OpenedDraft | null;
  /** The version that is shown, where it is not the newest one. */
  readonly version: number | null;
  readonly text: string;
  readonly types: NodeTypes;
  /** Why nothing can be changed; null if it can. */
  readonly readOnly: string | null;
}

/** The node types of this server. */
export async function readNodeTypes(): Promise<NodeTypes> {
  const answer = await call("list_node_types");
  return new NodeTypes(answer.items as NodeType[], ((answer as { nodeFields?: JsonSchema }).nodeFields ?? {}) as JsonSchema);
}

export async function openByDraft(draftID: string, mayEdit: boolean): Promise<Opened> {
  const [draft, types] = await Promise.all([openDraft(draftID), readNodeTypes()]);
  const workflow = draft.workflow === null ? null : await headOf(draft.workflow, null);
  return { workflow, draft, version: null, text: draft.text, types, readOnly: mayEdit ? null : READERS };
}

export async function openByWorkflow(name: string, version: number | null, mayEdit: boolean): Promise<Opened> {
  const [workflow, types] = await Promise.all([headOf(name, version), readNodeTypes()]);
  if (workflow.kind === "coded") return { workflow, draft: null, version, text: EMPTY, types, readOnly: CODED };
  const draft = version === null ? await openDraftOf(workflow.workflowID) : null;
  const text = draft?.text ?? (await callText("get_workflow_document", { path: { workflow: workflow.workflowID }, query: version === null ? {} : { version } })).text;
  const readOnly = version !== null ? `This is version ${version}, as it was published.` : mayEdit ? null : READERS;
  return { workflow, draft, version, text, types, readOnly };
}

const EMPTY = '{"nodes": [], "edges": []}';
export const READERS = "Your key may read workflows and not change them.";
export const CODED = "This workflow is a Python function: it is changed in its code.";

async function headOf(name: string, version: number | null): Promise<WorkflowHead> {
  const found = await call("get_workflow", { path: { workflow: name }, query: version === null ? {} : { version } });
  return { workflowID: found.workflowID, name: found.name, title: found.title, version: found.version, kind: found.kind };
}

export interface TestState {
  readonly run: ShownRun | null;
  /** The input that the last test was started with. */
  readonly input: string | null;
  readonly isStarting: boolean;
  /** What a test run was refused for. */
  readonly failure: unknown;
}

export class EditorSession {
  readonly opened: Opened;
  readonly store: EditStore;
  readonly model: CanvasModel;
  readonly saver: DraftSaver | null;
  readonly pins: StoreApi<Pins> = createStore<Pins>(() => ({}));
  readonly test: StoreApi<TestState> = createStore<TestState>(() => ({ run: null, input: null, isStarting: false, failure: null }));
  readonly #answers = new Map<string, ValidateAnswer>();
  #validation: ReturnType<typeof setTimeout> | undefined;
  #keeping: ReturnType<typeof setTimeout> | undefined;
  #asked = 0;
  #leave: (() => void) | null = null;
  #isClosed = false;

  constructor(opened: Opened) {
    this.opened = opened;
    this.store = new EditStore(readDocument(opened.text), () => performance.now());
    this.model = new CanvasModel(this.store, opened.types, opened.readOnly !== null);
    this.saver =
      opened.readOnly === null
        ? new DraftSaver({ draft: opened.draft, workflow: opened.workflow?.workflowID ?? null, version: opened.workflow?.version ?? null, text: opened.text })
        : null;
  }

  /** Begin: lay out what has no place, restore what was not saved, and have it judged. The result ends all of it. */
  begin(): () => void {
    this.#isClosed = false;
    const stop = this.store.subscribe((change) => {
      this.#validateSoon(VALIDATE_AFTER_MS);
      if (change.reason === "edit" || change.reason === "undo" || change.reason === "redo") this.#keepSoon();
    });
    void this.#restore();
    this.#validateSoon(0);
    void this.#layOut();
    void this.#readPins();
    return () => {
      this.#isClosed = true;
      stop();
      clearTimeout(this.#validation);
      this.keepNow();
      this.#leave?.();
      this.saver?.close();
    };
  }

  get text(): string {
    return writeDocument(this.store.document);
  }

  /** Save now. Rejects with the reason where it cannot be. */
  async save(): Promise<void> {
    this.keepNow();
    await this.saver?.flush();
  }

  keepNow(): void {
    clearTimeout(this.#keeping);
    this.#keeping = undefined;
    this.saver?.edited(this.text);
  }

  async validateNow(): Promise<ValidateAnswer | null> {
    clearTimeout(this.#validation);
    return this.#validate();
  }

  /** Run the document as it is drawn, without saving it. Resolves with the run's id; null where it was refused. */
  async startTest(input: string, options: { until?: string; from?: { instanceID: string; nodeID: string } } = {}): Promise<string | null> {
    this.test.setState({ isStarting: true, failure: null, input });
    let body = setMember(this.text, "input", input);
    const pins = this.pins.getState();
    if (Object.keys(pins).length > 0) body = setMember(body, "pins", pinsText(pins));
    if (options.until !== undefined) body = setMember(body, "until", JSON.stringify(options.until));
    if (options.from !== undefined) body = setMember(body, "from", JSON.stringify(options.from));
    try {
      const { instanceID } = await call("start_test_run", { bodyText: body });
      this.show(instanceID);
      return instanceID;
    } catch (failure) {
      this.test.setState({ failure });
      return null;
    } finally {
      this.test.setState({ isStarting: false });
    }
  }

  /** Show a run on the canvas, live. */
  show(instanceID: string): void {
    this.#leave?.();
    const store = new RunStore((flush) => void requestAnimationFrame(flush));
    this.test.setState({ run: { instanceID, store } });
    const { live } = useSession.getState();
    if (live === null) return;
    this.#leave = live.follow(instanceID, {
      snapshot: (snapshot) => store.takeSnapshot(snapshot as never),
      nodes: (updates) => store.takeUpdates(updates as unknown as UpdateMessage[]),
      status: (update) => store.takeStatus(update as never),
    });
  }

  hideRun(): void {
    this.#leave?.();
    this.#leave = null;
    this.test.setState({ run: null, failure: null });
  }

  async stopTest(): Promise<void> {
    const { run } = this.test.getState();
    if (run === null) return;
    await call("cancel_run", { path: { instanceID: run.instanceID } }).catch(() => undefined);
  }

  setPins(pins: Pins): void {
    this.pins.setState(pins, true);
    void this.#savePins(pins);
  }

  #validateSoon(ms: number): void {
    clearTimeout(this.#validation);
    this.#validation = setTimeout(() => void this.#validate(), ms);
  }

  async #validate(): Promise<ValidateAnswer | null> {
    const { document } = this.store;
    const asked = (this.#asked += 1);
    const hash = hashOf(document);
    let answer = this.#answers.get(hash);
    if (answer === undefined) {
      try {
        answer = (await call("validate_workflow", { bodyText: withDetails(writeDocument(document)) })) as unknown as ValidateAnswer;
      } catch {
        return null; // the server is away or refuses to judge; the next edit asks again
      }
      this.#answers.set(hash, answer);
      const [oldest] = this.#answers.keys();
      if (this.#answers.size > ANSWERS_KEPT && oldest !== undefined) this.#answers.delete(oldest);
    }
    if (asked === this.#asked && !this.#isClosed) this.model.judge(verdictOf(document, answer));
    return answer;
  }

  #keepSoon(): void {
    this.#keeping ??= setTimeout(() => this.keepNow(), KEEP_AFTER_MS);
  }

  async #layOut(): Promise<void> {
    if ([...this.store.document.nodes.values()].every((node) => node.position !== null)) return;
    // Frames are known with the first answer of the validator: what is laid out before would be laid out twice.
    await this.validateNow();
    const { document } = this.store;
    try {
      const places = await layOutCanvas(this.model);
      if (this.store.document === document && !this.#isClosed) this.store.layOut(withLayout(document, places));
    } catch (failure) {
      if (!(failure instanceof LayoutCancelled)) throw failure;
    }
  }

  /** Edits of this browser that the server never confirmed: taken up again, merged with what was saved since. */
  async #restore(): Promise<void> {
    const id = this.saver?.outboxID ?? null;
    if (id === null) return;
    const entry = (await readOutbox(id)) ?? (this.opened.workflow ? await readOutbox(`workflow:${this.opened.workflow.workflowID}`) : null);
    if (entry === null || this.#isClosed) return;
    if (entry.text === this.opened.text) {
      await removeFromOutbox(entry.id);
      return;
    }
    let merged: WorkflowDocument;
    try {
      const mine = readDocument(entry.text);
      const { document, conflicts } = merge3(readDocument(entry.base), mine, this.store.document);
      merged = document;
      if (conflicts.length > 0) toast("Edits of this browser were restored; where both sides changed something, yours is shown.");
      else toast("Edits that had not been saved are restored.");
    } catch {
      return; // an entry of an older page
    }
    replaceWithSameKeys(this.store, "Restore edits", readDocument(writeDocument(merged)));
  }

  async #readPins(): Promise<void> {
    const draft = this.saver?.draft ?? this.opened.draft;
    if (draft === null) return;
    try {
      const { text } = await callText("get_pins", { path: { draft: draft.draftID } });
      this.pins.setState(readPins(text), true);
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
    }
  }

  async #savePins(pins: Pins): Promise<void> {
    try {
      if (this.saver?.draft === null) await this.saver.flush();
      const draft = this.saver?.draft;
      if (draft) await call("save_pins", { path: { draft: draft.draftID }, bodyText: pinsText(pins) });
    } catch (failure) {
      toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" });
    }
  }
}

/** What the canvas wants to know besides whether it is valid. */
function withDetails(text: string): string {
  return setMember(text, "with", '["handles", "variables", "references", "structure"]');
}

function pinsText(pins: Pins): string {
  const members = Object.entries(pins).map(([id, { output, handle }]) => `${JSON.stringify(id)}: {"output": ${output}${handle === null ? "" : `, "handle": ${JSON.stringify(handle)}`}}`);
  return `{${members.join(", ")}}`;
}

function readPins(text: string): Pins {
  const pins = memberText(text, "pins") ?? text;
  return Object.fromEntries(
    entriesOf(pins).flatMap(({ key, text: pin }) => {
      const output = memberText(pin, "output");
      const handle = memberText(pin, "handle");
      return output === undefined ? [] : [[String(key), { output, handle: handle === undefined || handle === "null" ? null : shownScalar(handle) }]];
    }),
  );
}
