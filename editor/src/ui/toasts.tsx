/** Short messages at the edge of the page, and what screen readers are told. */

import { X } from "lucide-react";
import { useEffect, useRef, useState, type ReactElement, type ReactNode } from "react";
import { create } from "zustand";

import { Button, IconButton } from "./Button";

interface Toast {
  id: number;
  kind: "info" | "error";
  text: ReactNode;
  action?: { label: string; run: () => void };
}

interface Toasts {
  items: Toast[];
  /** The last thing said to screen readers, politely or at once. */
  polite: string;
  assertive: string;
}

const useToasts = create<Toasts>(() => ({ items: [], polite: "", assertive: "" }));
let nextID = 1;

/** 6 seconds: enough to read two lines. Problems stay until they are closed. */
const SHOWN_MS = 6_000;

export function toast(text: ReactNode, options: { kind?: "info" | "error"; action?: Toast["action"] } = {}): void {
  const id = nextID++;
  const kind = options.kind ?? "info";
  const item: Toast = { id, kind, text, ...(options.action ? { action: options.action } : {}) };
  useToasts.setState(({ items }) => ({ items: [...items.slice(-3), item] }));
  if (kind === "info") setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Tell people who do not see the page; never more than one message a second is spoken. */
export function announce(text: string, manner: "polite" | "assertive" = "polite"): void {
  useToasts.setState(manner === "polite" ? { polite: text } : { assertive: text });
}

function dismiss(id: number): void {
  useToasts.setState(({ items }) => ({ items: items.filter((item) => item.id !== id) }));
}

const SPOKEN_EVERY_MS = 1_000;

export function Toasts(): ReactElement {
  const { items, polite, assertive } = useToasts();
  const spoken = useThrottled(polite);
  return (
    <>
      <div className="visually-hidden" role="status" aria-live="polite">
        {spoken}
      </div>
      <div className="visually-hidden" role="alert" aria-live="assertive">
        {assertive}
      </div>
      <div className="toasts">
        {items.map(({ id, kind, text, action }) => (
          <div key={id} className={`toast ${kind}`} role={kind === "error" ? "alert" : "status"}>
            <div className="grow">{text}</div>
            {action && (
              <Button
                small
                onClick={() => {
                  action.run();
                  dismiss(id);
                }}
              >
                {action.label}
              </Button>
            )}
            <IconButton label="Dismiss" icon={<X size={14} />} small onClick={() => dismiss(id)} />
          </div>
        ))}
      </div>
    </>
  );
}

function useThrottled(text: string): string {
  const [shown, setShown] = useState(text);
  const last = useRef(0);
  useEffect(() => {
    const wait = Math.max(0, last.current + SPOKEN_EVERY_MS - performance.now());
    const timer = setTimeout(() => {
      last.current = performance.now();
      setShown(text);
    }, wait);
    return () => clearTimeout(timer);
  }, [text]);
  return shown;
}
