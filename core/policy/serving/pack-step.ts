import { hasSeveralClients, turnsOf } from '../fairness/in-turns.ts'
import { ServedAmounts } from '../fairness/served.ts'
import type { ServingPlan, ServingState, StreamState } from './policy.ts'

export interface PackLimits {
  /** Rows of prompts in this step, all together. */
  readonly promptRows: number
  /** A piece of a prompt has at least this many rows, unless fewer wait: fewer are not worth a place in a step. */
  readonly minPromptRows: number
  /** Rows of one prompt in this step. Default: no limit. */
  readonly sequenceRows?: number
}

/**
 * Fills a step in the order given, until rows or places run out. Prompts are cut into pieces; the rows of a draft are
 * all in one step.
 * @param ranked resident streams with waiting rows
 */
export function packStep(
  ranked: Iterable<Pick<StreamState, 'id' | 'waitingRows' | 'phase'>>,
  step: ServingState['step'],
  limits: PackLimits,
): ServingPlan['run'] {
  const { sequenceRows = Number.POSITIVE_INFINITY } = limits
  let freeRows = step.rows
  let freePromptRows = Math.min(limits.promptRows, step.rows)
  const run: { stream: number; rows: number }[] = []
  for (const { id, waitingRows, phase } of ranked) {
    if (run.length === step.streams || freeRows === 0) break
    const isPrompt = phase === 'prefill'
    const rows = Math.min(waitingRows, freeRows, isPrompt ? Math.min(freePromptRows, sequenceRows) : freeRows)
    const minRows = isPrompt ? Math.min(limits.minPromptRows, limits.promptRows) : waitingRows
    if (rows < Math.min(waitingRows, minRows, step.rows)) continue
    run.push({ stream: id, rows })
    freeRows -= rows
    if (isPrompt) freePromptRows -= rows
  }
  return run
}

/**
 * Fills steps as `packStep`, but clients take turns for places and rows; within a turn, the client that has been served the fewest rows
 * while it waited goes first. The order given decides among equals. Mutable.
 */
export class FairPacker {
  readonly #served = new ServedAmounts()

  pack(ranked: readonly StreamState[], step: ServingState['step'], limits: PackLimits): ServingPlan['run'] {
    const isShared = hasSeveralClients(ranked)
    const served = this.#served.ofThose(isShared ? ranked : ranked.slice(0, 1))
    if (!isShared) return packStep(ranked, step, limits)
    const turns = turnsOf(ranked)
    const rowsOf = (at: number) => served.get(ranked[at]!.client)!
    const order = Array.from(ranked.keys()).sort((a, b) => turns[a]! - turns[b]! || rowsOf(a) - rowsOf(b))
    const clients = new Map(ranked.map(({ id, client }) => [id, client]))
    const run = packStep(
      order.map((at) => ranked[at]!),
      step,
      limits,
    )
    for (const { stream, rows } of run) this.#served.add(clients.get(stream)!, rows)
    return run
  }
}
