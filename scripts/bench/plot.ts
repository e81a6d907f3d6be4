import type { CaseResult } from './case.ts';
export function drawPlot(_results: readonly CaseResult[]): string {
  return '';
}
