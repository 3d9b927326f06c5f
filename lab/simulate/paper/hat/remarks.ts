import type { PaperCell } from '../comparison.ts'
import type { Run } from './measure.ts'
import { longAnswersRow, onePipelinePerS, slowPerS, slowRow } from './plan.ts'
import type { Dataset, Method } from './published.ts'

/** What a cell is of, for its remark. */
export interface CellSubject {
  readonly dataset: Dataset
  readonly method: Method
  readonly kind: 'ttft' | 'tbt' | 'stage' | 'deviation' | 'speedup' | 'accept' | 'sla' | 'ratio' | 'part'
  readonly oneStage?: boolean
}

/** Why a simulated figure differs from the paper's: found by changing the suspected cause, where that is possible. */
export function remarkOn(subject: CellSubject, { place }: PaperCell, runs: readonly Run[]): string | undefined {
  const { dataset, method, kind, oneStage = false } = subject
  const changed = (row: string, of: 'hat' | 'u-shape', figure: 'ttftMs' | 'tbtMs') => {
    const found = runs.find(
      ({ purpose, variation, setup }) =>
        purpose === 'open' && variation.startsWith(row) && setup.dataset === dataset && setup.method === of,
    )
    return found ? `${Math.round(found[figure])} ms` : '–'
  }
  const oneStageRun = (variation: string, of: Method) =>
    runs.find(({ variation: own, setup }) => own === variation && setup.dataset === dataset && setup.method === of)!
  const like = method === 'hat' ? 'hat' : 'u-shape'
  if (kind === 'deviation' && (method === 'hat' || (dataset === 'short' && method === 'u-sarathi')))
    return 'steps that compute the same take the same time here: noise of the GPUs is left out'
  if (dataset === 'short' && (kind === 'stage' || kind === 'deviation'))
    return 'one step in twenty holds a prompt; the paper’s mean and deviation need about one in four, so fewer and larger steps'
  if (oneStage && kind === 'sla' && dataset === 'long')
    return `the states of 128 tokens take 167 ms up and 100 ms down in the middle of the paper’s link rates, which leaves 33 ms of the 300 for everything else; with ${slowPerS} in place of ${onePipelinePerS.long} requests per second the share is ${Math.round(oneStageRun(slowRow, method).prefillSlaPercent)} %`
  if (oneStage && dataset === 'long')
    return `the paper does not state the rate at P = 1, here ${onePipelinePerS.long}/s, where U-Sarathi’s steps are full; at ${slowPerS}/s it is ${Math.round(oneStageRun(slowRow, method).decodeSlaMs)} ms`
  if (oneStage && kind === 'ttft' && method === 'u-sarathi')
    return `its prompts wait for what the answers leave of 128 rows per step: with answers of 128 tokens, of which more are under way at once, it has ${Math.round(oneStageRun(longAnswersRow, method).ttftMs)} ms`
  if (oneStage && kind === 'tbt' && method === 'hat')
    return 'the paper’s own Fig. 11 has 39.2 ms per token for this set-up, 392 ms per 10 tokens'
  if (dataset === 'short') return undefined
  if (kind === 'ttft')
    return `the states of 1,037 tokens take 1.35 s at 7.5 MB/s, so the paper’s times and its link rates exclude each other; ${like} has ${changed('prompts of 73', like, 'ttftMs')} with prompts of 73 % of the length, ${changed('links at', like, 'ttftMs')} with links of 10 and 15 MB/s`
  if (method === 'hat')
    return `a drafting step reads 2.4 GB: 14 ms on an Orin, 21 ms on a Xavier; hat has ${changed('only AGX Orin', 'hat', 'tbtMs')} with Orins only`
  if (place === 'Fig. 12')
    return 'the paper contradicts itself: −40.8, −77.2 and −74.7 % at the same rate and P in its section 4.2, which agree with ours (Fig. 7)'
  return `a prompt occupies each GPU for 65 ms, and no step overtakes it; the paper has 172, 128 and 82 ms for U-shape (sections 4.2, 4.4, 4.5); u-shape has ${changed('prompts of 73', 'u-shape', 'tbtMs')} with prompts of 73 % of the length`
}
