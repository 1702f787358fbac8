/** One open workflow: its document and history, what the validator says, its draft, and the test run that is shown. */

import { createStore, type StoreApi } from "zustand/vanilla";

import { ApiError, call, callText } from "../../api/client";
import {
  DraftSaver,
  DraftTabs,
  IndexedDBOutbox,
  openDraft,
  openDraftOf,
  publishDraft,
  recover,
  RestDrafts,
  saveDraft,
  type Clock,
  type OpenedDraft,
  type SaveState,
  type TabChannel,
} from "../../api/drafts";
import { CanvasModel } from "../../canvas/CanvasModel";
import { layOutCanvas } from "../../canvas/layout";
import { NodeTypes, type NodeType } from "../../canvas/nodeTypes";
import type { Pins } from "../../canvas/pins";
import { readTotals, shownRun, type ShownRun } from "../../canvas/run";
import { verdictOf, type ValidateAnswer } from "../../canvas/validation";
import { EditStore, replaceDocument, replaceWithSameKeys } from "../../edit";
import { entriesOf, memberText, setMember, shownScalar } from "../../json";
import { LayoutCancelled } from "../../layout";
import { hashOf, merge3, nodeIDsOf, readDocument, rekeyed, withLayout, writeDocument, type Merge, type WorkflowDocument } from "../../model";
import { RunStore, type UpdateMessage } from "../../run";
import type { JsonSchema } from "../../ui/forms/schema";
import { toast } from "../../ui/toasts";
import { useSession } from "../session";

/** Who types for this long without a pause has the validator's answer late, and none of ours is asked in vain. */
const VALIDATE_AFTER_MS = 150;

/** Documents of up to 300 kB are sent to be judged at once; larger ones are judged as the draft that they are saved as. */
const SENT_MAX = 300_000;

/** A drag writes the document once per frame; what is kept of it need not. */
const KEEP_AFTER_MS = 100;

/** A tab that is there answers in a few milliseconds; 300 is for one that is busy. */
const TAB_ANSWER_MS_MAX = 300;

const CLOCK: Clock = {
  now: () => Date.now(),
  after: (milliseconds, callback) => {
    const timer = setTimeout(callback, milliseconds);
    return () => clearTimeout(timer);
  },
};

const OUTBOX = new IndexedDBOutbox();

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
  return new NodeTypes(answer.items as NodeType[], answer.nodeFields as JsonSchema, answer.templateFilters);
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

/** What a test run does not execute: see `POST /v1/test-runs`. */
export interface TestOptions {
  readonly until?: string;
  readonly from?: { readonly instanceID: string; readonly nodeID: string; readonly scope?: string };
  /** The beginning, where there are several. */
  readonly trigger?: string;
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
  readonly saver: DraftSaver<ApiError> | null;
  /** In how many other tabs the draft is open. */
  readonly otherTabs: StoreApi<number> = createStore<number>(() => 0);
  readonly pins: StoreApi<Pins> = createStore<Pins>(() => ({}));
  readonly test: StoreApi<TestState> = createStore<TestState>(() => ({ run: null, input: null, isStarting: false, failure: null }));
  readonly #answers = new Map<string, ValidateAnswer>();
  #validation: ReturnType<typeof setTimeout> | undefined;
  #keeping: ReturnType<typeof setTimeout> | undefined;
  #asked = 0;
  #leave: (() => void) | null = null;
  #isClosed = false;
  #isDiscarded = false;
  /** Every opening is a tab of its own in the outbox: one that is being left may still be saving. */
  readonly #tabID = randomID();
  #tabs: DraftTabs | null = null;
  #tabsAnswered: Promise<void> = Promise.resolve();

  constructor(opened: Opened) {
    this.opened = opened;
    this.store = new EditStore(readDocument(opened.text), () => performance.now());
    this.model = new CanvasModel(this.store, opened.types, opened.readOnly !== null);
    this.saver =
      opened.readOnly === null
        ? new DraftSaver({
            draft: opened.draft,
            text: opened.text,
            workflow: opened.workflow?.workflowID ?? null,
            tabID: this.#tabID,
            server: new RestDrafts(opened.workflow?.workflowID ?? null, opened.workflow?.version ?? null),
            outbox: OUTBOX,
            clock: CLOCK,
          })
        : null;
  }

  /** Begin: lay out what has no place, restore what was not saved, and have it judged. The result ends all of it, for good. */
  begin(): () => void {
    const stop = this.store.subscribe((change) => {
      this.#validateSoon(VALIDATE_AFTER_MS);
      if (change.reason === "edit" || change.reason === "undo" || change.reason === "redo") this.#keepSoon();
    });
    const stopSaving = this.saver === null ? () => undefined : this.#beginSaving(this.saver);
    this.#validateSoon(0);
    void this.#layOut();
    void this.#readPins();
    return () => {
      this.keepNow();
      this.#isClosed = true;
      stop();
      clearTimeout(this.#validation);
      this.#leave?.();
      stopSaving();
    };
  }

  get text(): string {
    return writeDocument(this.store.document);
  }

  /** Save now. Rejects with the reason where it cannot be. */
  async save(): Promise<void> {
    this.keepNow();
    const { saver } = this;
    await saver?.flush().catch(() => {
      throw new Error(saver.state.kind === "refused" ? saver.state.error.advice : (NOT_SAVED[saver.state.kind] ?? NOT_SAVED.offline));
    });
  }

  /** Publish what is on the canvas; the number of the version and the workflow's name. Throws `ApiError`, and what `save` throws. */
  async publish({ activate }: { activate: boolean }): Promise<{ version: number; name: string; activeVersion: number }> {
    await this.save();
    const draft = this.saver!.draft!;
    try {
      const published = await publishDraft(draft, { activate });
      this.saver!.rebased(published.draft);
      return published;
    } catch (failure) {
      if (failure instanceof ApiError && failure.code === "DRAFT_CONFLICT") this.saver!.overtaken(draft.draftID, (failure.details as OpenedDraft).revision);
      throw failure;
    }
  }

  /** What the workflow's newest version and this draft have both changed since the version that the draft is of. */
  async mergeWithNewest(): Promise<{ merge: Merge; version: number }> {
    const { workflow, baseVersion } = this.saver!.draft!;
    const documentOf = async (version: number) =>
      readDocument((await callText("get_workflow_document", { path: { workflow: workflow! }, query: { version } })).text);
    const { version } = await headOf(workflow!, null);
    const [base, newest] = await Promise.all([documentOf(baseVersion!), documentOf(version)]);
    return { merge: merge3(base, this.store.document, newest), version };
  }

  /** Put a merge with a newer version on the canvas, and the draft on that version. Throws `ApiError`, and what `save` throws. */
  async takeMergeWith(version: number, document: WorkflowDocument): Promise<void> {
    replaceWithSameKeys(this.store, `Merge with version ${version}`, document);
    void this.#layOut();
    await this.save();
    this.saver!.rebased(await saveDraft(this.saver!.draft!, this.saver!.base, version));
  }

  /** Go on from what somebody else has saved, with this document, as one step of the history. */
  resolve(theirs: OpenedDraft, name: string, document: WorkflowDocument): void {
    this.saver!.resolved(theirs, writeDocument(document));
    replaceDocument(this.store, name, document);
    this.keepNow();
    void this.#layOut();
  }

  /** Delete the draft, with what is not saved of it. Throws `ApiError`. */
  async discard(): Promise<void> {
    const { saver } = this;
    if (saver === null) return;
    clearTimeout(this.#keeping);
    if (saver.draft !== null) await call("delete_draft", { path: { draft: saver.draft.draftID } });
    this.#isDiscarded = true;
    saver.edited(saver.base);
  }

  keepNow(): void {
    clearTimeout(this.#keeping);
    this.#keeping = undefined;
    if (!this.#isDiscarded && !this.#isClosed) this.saver?.edited(this.text);
  }

  async validateNow(): Promise<ValidateAnswer | null> {
    clearTimeout(this.#validation);
    return this.#validate();
  }

  /** Run the document as it is drawn, without saving it. Resolves with the run's id; null where it was refused. */
  async startTest(input: string, options: TestOptions = {}): Promise<string | null> {
    this.test.setState({ isStarting: true, failure: null, input });
    let body = setMember(this.text, "input", input);
    // A removed node keeps its pin, so that undo restores it; the server would refuse it.
    const ids = nodeIDsOf(this.store.document);
    const pins = Object.fromEntries(Object.entries(this.pins.getState()).filter(([id]) => ids.has(id)));
    if (Object.keys(pins).length > 0) body = setMember(body, "pins", pinsText(pins));
    if (options.until !== undefined) body = setMember(body, "until", JSON.stringify(options.until));
    if (options.from !== undefined) body = setMember(body, "from", JSON.stringify(options.from));
    if (options.trigger !== undefined) body = setMember(body, "trigger", JSON.stringify(options.trigger));
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

  /** Start a test run that waits for the next request to the test address of a webhook, with the draft as it is on the canvas. Throws `ApiError`, and what `save` throws. */
  async listen(nodeID: string): Promise<string> {
    await this.save();
    const { instanceID } = await call("listen_at_test_hook", { path: { draft: this.saver!.draft!.draftID, node: nodeID } });
    this.show(instanceID!);
    return instanceID!;
  }

  /** Show a run on the canvas, live. */
  show(instanceID: string): void {
    this.#leave?.();
    const store = new RunStore((flush) => void requestAnimationFrame(flush));
    const run = shownRun(instanceID, store);
    this.test.setState({ run });
    const { live } = useSession.getState();
    if (live === null) return;
    this.#leave = live.follow(instanceID, {
      snapshot: (snapshot) => {
        store.takeSnapshot(snapshot as never);
        if (store.head.nodesOmitted > 0) readTotals(run);
      },
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

  /** A node has another id now: what is pinned stays pinned. */
  movePin(from: string, to: string): void {
    const { [from]: pin, ...rest } = this.pins.getState();
    if (pin !== undefined && from !== to) this.setPins({ ...rest, [to]: pin });
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
        const body = this.#validateBody(writeDocument(document));
        if (body === null) return null;
        answer = (await call("validate_workflow", { bodyText: body })) as unknown as ValidateAnswer;
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

  /** A large document that the server has as a draft is named, not sent again; null while it is being saved: then it is asked again. */
  #validateBody(text: string): string | null {
    const { saver } = this;
    const draft = saver?.draft ?? null;
    if (saver === null || draft === null || text.length <= SENT_MAX) return withDetails(text);
    if (saver.base === text) return withDetails(JSON.stringify({ draftID: draft.draftID, revision: draft.revision }));
    return saver.state.kind === "saving" ? null : withDetails(text);
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

  /** Follow the saver, the other tabs and the network; the result ends it, once what is edited is saved or kept. */
  #beginSaving(saver: DraftSaver<ApiError>): () => void {
    const stops = [
      saver.subscribe(() => this.#followSaver(saver)),
      useSession.subscribe((now, before) => now.online && !before.online && saver.online()),
    ];
    this.#joinTabs(saver);
    void this.#restore(saver);
    return () => {
      for (const stop of stops) stop();
      const saved = saver.state.kind === "saving" ? saver.flush() : Promise.resolve();
      void saved
        .catch(() => undefined)
        .then(() => saver.close())
        .then(() => this.#tabs?.close());
    };
  }

  #followSaver(saver: DraftSaver<ApiError>): void {
    this.#joinTabs(saver);
    if (saver.state.kind === "saved" && saver.draft !== null) this.#tabs?.saved(saver.draft);
    if (saver.state.kind === "saved" && this.model.view.getState().verdict?.document !== this.store.document) this.#validateSoon(0);
    if (saver.state.kind !== "conflict") return;
    this.keepNow();
    // Nothing of ours is at stake: what they have is shown. Undo brings back what was here.
    if (saver.state.kind !== "conflict" || saver.isEdited) return;
    this.resolve(saver.state.theirs, "Changes from elsewhere", readDocument(saver.state.theirs.text));
    toast("The draft was changed elsewhere. The canvas shows it as it is now.");
  }

  /** Meet the other tabs that have this open: those of the workflow, or of its draft while there is no workflow. */
  #joinTabs(saver: DraftSaver<ApiError>): void {
    const room = saver.draft?.workflow ?? this.opened.workflow?.workflowID ?? saver.draft?.draftID;
    if (room === undefined || room === this.#tabs?.room) return;
    this.#tabs?.close();
    this.otherTabs.setState(0, true);
    this.#tabs = new DraftTabs({
      room,
      tabID: this.#tabID,
      channel: new BroadcastChannel("anabranch.drafts") as TabChannel,
      onChange: () => {
        const before = this.otherTabs.getState();
        const others = this.#tabs?.others ?? 0;
        this.otherTabs.setState(others, true);
        // A tab that has gone may have left what it could not save.
        if (others < before) void this.#restore(saver);
      },
      onSaved: (draftID, revision) => saver.overtaken(draftID, revision),
    });
    this.#tabsAnswered = new Promise((resolve) => setTimeout(resolve, TAB_ANSWER_MS_MAX));
  }

  /** Edits of this browser that the server never confirmed: taken up again, merged with what was saved since. */
  async #restore(saver: DraftSaver<ApiError>): Promise<void> {
    const { workflow } = this.opened;
    const id = saver.outboxID;
    if (id === null) return;
    const isTabAlive = async (tabID: string) => {
      await this.#tabsAnswered;
      return this.#tabs?.has(tabID) ?? false;
    };
    const ids = [id, ...(workflow === null ? [] : [`workflow:${workflow.workflowID}`])] as [string, ...string[]];
    const entry = await recover(OUTBOX, { ids: [...new Set(ids)] as typeof ids, tabID: this.#tabID, serverText: saver.base }, isTabAlive);
    if (entry === null || this.#isClosed) return;
    const mine = rekeyed(readDocument(entry.text), this.store.document);
    const { document, conflicts } = merge3(readDocument(entry.base), mine, this.store.document);
    replaceWithSameKeys(this.store, "Restore edits", document);
    this.keepNow();
    void this.#layOut();
    if (!saver.isEdited) await OUTBOX.remove(id, this.#tabID);
    else if (conflicts.length > 0) toast("Edits of this browser were restored; where both sides changed something, yours is shown.");
    else toast("Edits that had not been saved are restored.");
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
      if (this.saver?.draft === null) await this.save();
      const draft = this.saver?.draft;
      if (draft) await call("save_pins", { path: { draft: draft.draftID }, bodyText: pinsText(pins) });
    } catch (failure) {
      toast(failure instanceof ApiError ? failure.advice : String(failure), { kind: "error" });
    }
  }
}

/** Why it is not saved, by the state of the saver. */
const NOT_SAVED: Partial<Record<SaveState<ApiError>["kind"], string>> & { offline: string } = {
  offline: "The server does not answer. What you edit is kept in this browser.",
  conflict: "The draft was changed elsewhere: resolve that first.",
  readOnly: "The server does not take this draft any more. What you edit is kept in this browser.",
};

/** 128 random bits. `crypto.randomUUID` does not exist on pages without TLS. */
function randomID(): string {
  return [...crypto.getRandomValues(new Uint32Array(4))].map((word) => word.toString(16).padStart(8, "0")).join("");
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
