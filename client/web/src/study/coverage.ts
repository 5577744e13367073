// How much of a study an answer is of.
import type { StudyCoverage } from "api";
import { int } from "../format";

// All of it is read that ever will be, as of now.
export function isRead(coverage: StudyCoverage | undefined): boolean {
  return (coverage?.isCut ?? false) || int(coverage?.read) >= int(coverage?.stored);
}

// Later answers have the same content: the study has ended, and all of it is read.
export function isSettled(coverage: StudyCoverage | undefined): boolean {
  return coverage !== undefined && !coverage.isOpen && !coverage.isBehind && isRead(coverage);
}
