/** Pinned outputs, by node id: they stand beside a draft and are taken by test runs only. */

import { createContext, useContext } from "react";
import { useStore } from "zustand";
import { createStore, type StoreApi } from "zustand/vanilla";

export interface Pin {
  /** The source text of the output. */
  readonly output: string;
  readonly handle: string | null;
}

export type Pins = Readonly<Record<string, Pin>>;

export const PinsContext = createContext<StoreApi<Pins>>(createStore<Pins>(() => ({})));

export function usePins<T>(select: (pins: Pins) => T): T {
  return useStore(useContext(PinsContext), select);
}
