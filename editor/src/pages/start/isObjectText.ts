import { kindOf, scanDocument } from "../../json";

/** Is a text JSON of an object? */
export function isObjectText(text: string): boolean {
  try {
    scanDocument(text);
    return kindOf(text) === "object";
  } catch {
    return false;
  }
}
