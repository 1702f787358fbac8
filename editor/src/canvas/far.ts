/** Far away: below this zoom nodes are icons in the colour of their status, edges are straight, and no words are drawn. */

import { createContext, useContext } from "react";

export const FAR_ZOOM = 0.4;

/** Of larger graphs that are seen from far the bodies of loops are not drawn one by one. */
export const CONDENSED_ABOVE = 500;

/** Of larger graphs that are seen from so far that an icon has ten pixels, all nodes and all edges are a few shapes. */
export const OVERVIEW_ZOOM = 0.2;
export const OVERVIEW_ABOVE = 300;

export const FarContext = createContext(false);

export function useIsFar(): boolean {
  return useContext(FarContext);
}
