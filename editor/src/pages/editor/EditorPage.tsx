/** The editor: a canvas with its palette, the panel of the open node, problems, test runs, drafts and versions. */

import { useQuery } from "@tanstack/react-query";
import { List, Workflow } from "lucide-react";
import { useEffect, useMemo, useState, type ReactElement } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { useStore } from "zustand";

import { ApiError } from "../../api/client";
import { Canvas } from "../../canvas/Canvas";
import { CanvasContext, useCanvas } from "../../canvas/CanvasModel";
import { CanvasDialogs } from "../../canvas/Dialogs";
import type { CanvasActions } from "../../canvas/commands";
import { ListView } from "../../canvas/ListView";
import { NodeMenu, type MenuRequest } from "../../canvas/NodeMenu";
import { PaletteDialog, PaletteList } from "../../canvas/Palette";
import { PinsContext } from "../../canvas/pins";
import { RunContext, summaryAt } from "../../canvas/run";
import { Empty, Notice, Problem, Skeleton } from "../../ui/Notice";
import { toast } from "../../ui/toasts";
import { readOutput } from "../outputs";
import { OfflineBanner } from "../shell/Layout";
import { useMay, useSession } from "../session";
import { useTitle } from "../title";
import { ImportReportDialog, importN8n, isN8n, type ImportedWorkflow } from "../workflows/ImportReport";
import { EditorHeader } from "./EditorHeader";
import { NodePanel } from "./NodePanel";
import { Problems } from "./Problems";
import { EditorSession, openByDraft, openByWorkflow, type Opened } from "./session";
import { TestBar } from "./TestBar";
import { TestDialog, type TestRequest } from "./TestDialog";
import "./editor.css";

export default function EditorPage(): ReactElement {
  const { workflow, draft } = useParams();
  const [params] = useSearchParams();
  const version = params.get("version") === null ? null : Number(params.get("version"));
  const mayEdit = useMay("editor");
  const isKnown = useSession((session) => session.me !== null);
  const opened = useQuery({
    queryKey: ["open", workflow ?? null, draft ?? null, version, mayEdit],
    queryFn: () => (draft === undefined ? openByWorkflow(workflow!, version, mayEdit) : openByDraft(draft, mayEdit)),
    enabled: isKnown,
    // What is open is never replaced under the person's hands: drafts have their own way to meet.
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  if (opened.error) {
    return (
      <div className="content">
        <Problem error={opened.error} onRetry={() => void opened.refetch()} />
        <Link to="/">To the workflows</Link>
      </div>
    );
  }
  if (opened.data === undefined) return <Skeleton lines={8} />;
  return <Editor key={opened.dataUpdatedAt} opened={opened.data} onReopen={() => void opened.refetch()} />;
}

function Editor({ opened, onReopen }: { opened: Opened; onReopen: () => void }): ReactElement {
  const [session, setSession] = useState<EditorSession | null>(null);
  useEffect(() => {
    const begun = new EditorSession(opened);
    // A session ends for good with its effect: React's strict mode, which runs effects twice, gets two of them.
    // eslint-disable-next-line react-hooks/set-state-in-effect
    setSession(begun);
    return begun.begin();
  }, [opened]);
  if (opened.workflow?.kind === "coded") return <CodedWorkflow opened={opened} />;
  if (session === null) return <Skeleton lines={8} />;
  return <EditorShell session={session} onReopen={onReopen} />;
}

function EditorShell({ session, onReopen }: { session: EditorSession; onReopen: () => void }): ReactElement {
  const { model, opened } = session;
  const shown = useStore(session.test, (state) => state.run);
  const [menu, setMenu] = useState<MenuRequest | null>(null);
  const [test, setTest] = useState<TestRequest | null>(null);
  const [imported, setImported] = useState<readonly ImportedWorkflow[] | null>(null);
  const isList = useStore(model.view, (view) => view.list);
  const title = useStore(model.view, (view) => view.document.head.title || opened.workflow?.title || "Untitled");
  useTitle(title);
  useWarningBeforeLeaving(session);

  const actions = useMemo<CanvasActions>(() => {
    if (model.isReadOnly) return { run: shown };
    const idOf = (key: `n${number}`) => model.document.nodes.get(key)?.id ?? "";
    return {
      test: () => setTest({ kind: "all" }),
      runToHere: (key) => setTest({ kind: "until", nodeID: idOf(key) }),
      runFromHere: (key) => setTest({ kind: "from", nodeID: idOf(key) }),
      runAlone: (key) => setTest({ kind: "alone", nodeID: idOf(key) }),
      run: shown,
      pin: (key) => void togglePin(session, idOf(key)),
      dropFile: (file) => void file.text().then(async (text) => {
        if (!isN8n(text)) throw new Error(`${file.name} is not an export of n8n; other files are imported with the menu.`);
        setImported(await importN8n(text));
      }).catch((failure: unknown) => toast(failure instanceof ApiError ? failure.advice : (failure as Error).message, { kind: "error" })),
      save: () => void session.save().then(() => toast("Saved."), (failure: Error) => toast(failure.message, { kind: "error" })),
    };
  }, [model, session, shown]);

  return (
    <CanvasContext.Provider value={model}>
      <PinsContext.Provider value={session.pins}>
        <RunContext.Provider value={shown}>
          <div className="editor">
            <EditorHeader session={session} actions={actions} onReopen={onReopen} />
            <OfflineBanner />
            {opened.readOnly && (
              <div className="banner">
                <Notice kind="info">{opened.readOnly} Nothing can be changed here.</Notice>
              </div>
            )}
            <div className="editor-body">
              {!model.isReadOnly && !isList && <PaletteList />}
              <div className="editor-middle">
                {isList ? (
                  <ListView actions={actions} />
                ) : (
                  <Canvas model={model} actions={actions} label={`Canvas of ${title}`} onMenu={(key, at) => setMenu({ key, at })}>
                    <EmptyCanvas />
                  </Canvas>
                )}
                <TestBar session={session} />
                <Problems session={session} />
              </div>
              <NodePanel session={session} actions={actions} />
            </div>
            <PaletteDialog />
            <CanvasDialogs actions={actions} />
            <NodeMenu request={menu} onClose={() => setMenu(null)} actions={actions} />
            {imported && <ImportReportDialog imported={imported} onClose={() => setImported(null)} />}
            {test && <TestDialog session={session} request={test} onClose={() => setTest(null)} />}
          </div>
        </RunContext.Provider>
      </PinsContext.Provider>
    </CanvasContext.Provider>
  );
}

/** Leaving with unsaved edits is asked about, though the outbox has them. */
function useWarningBeforeLeaving(session: EditorSession): void {
  useEffect(() => {
    const warn = (event: BeforeUnloadEvent) => {
      session.keepNow();
      const state = session.saver?.state;
      if (state?.kind === "saving") void session.save().catch(() => undefined);
      if (state?.kind === "conflict" || (state !== undefined && "isKept" in state && !state.isKept)) event.preventDefault();
    };
    window.addEventListener("beforeunload", warn);
    return () => window.removeEventListener("beforeunload", warn);
  }, [session]);
}

function EmptyCanvas(): ReactElement | null {
  const count = useCanvas((view) => view.document.nodes.size + view.document.notes.size);
  if (count > 0) return null;
  return (
    <div className="empty-canvas">
      <Empty icon={<Workflow size={32} />} title="An empty workflow">
        Press <kbd>N</kbd> or drag a node from the list. A workflow that you paste here is imported.
      </Empty>
    </div>
  );
}

function CodedWorkflow({ opened }: { opened: Opened }): ReactElement {
  const { workflow } = opened;
  return (
    <div className="content">
      <h1>{workflow?.title ?? workflow?.name}</h1>
      <Notice kind="info">{opened.readOnly} Its runs have the graph of what they did.</Notice>
      <p>
        <Link className="button" to={`/runs?workflow=${encodeURIComponent(workflow?.name ?? "")}`}>
          <List size={14} aria-hidden /> Its runs
        </Link>
      </p>
    </div>
  );
}

/** Pin what the node put out in the run that is shown, or take its pin away. */
export async function togglePin(session: EditorSession, nodeID: string): Promise<void> {
  const pins = session.pins.getState();
  if (nodeID in pins) {
    const { [nodeID]: _, ...rest } = pins;
    session.setPins(rest);
    return;
  }
  const { run } = session.test.getState();
  const latest = run === null ? null : summaryAt(run, session.model.view.getState(), nodeID).latest;
  const output = run === null || latest === null ? null : await readOutput(run.instanceID, nodeID, latest.scope).catch(() => null);
  if (output === null || latest === null) {
    toast("There is no output to pin yet: run a test first, or write one in the node's panel.");
    return;
  }
  session.setPins({ ...session.pins.getState(), [nodeID]: { output, handle: latest.handles?.[0] ?? null } });
}
