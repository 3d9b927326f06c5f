import { packStep } from '../serving/pack-step.ts'
import type { ServingPlan, StreamState } from '../serving/policy.ts'

/** Prompt tokens of one sequence in a step. */
const prefillChunk = 256
const limits = { promptRows: Number.POSITIVE_INFINITY, minPromptRows: 1, sequenceRows: prefillChunk }

/**
 * Sequences of so many positions whose KV fits: buffers double as they grow.
 * @param bytes of one sequence: for each position, and besides
 * @returns at least one, and no more than `maxSequences`
 */
export function fittingSequences(
  maxSequences: number,
  positions: number,
  bytes: { readonly bytesPerPosition: number; readonly fixedBytes: number },
  kvBytes: number,
): number {
  const sequenceBytes = bytes.fixedBytes + bytes.bytesPerPosition * 2 ** Math.ceil(Math.log2(Math.max(1, positions)))
  return Math.max(1, Math.min(maxSequences, Math.floor(kvBytes / sequenceBytes)))
}

/**
 * A step of a small model that decodes several sequences: those that go on at the same time share the cost of reading the weights.
 * @param waiting in the order in which they have asked
 */
export const packSequences = (
  waiting: Iterable<Pick<StreamState, 'id' | 'waitingRows' | 'phase'>>,
  maxSequences: number,
): ServingPlan['run'] => packStep(waiting, { rows: Number.POSITIVE_INFINITY, streams: maxSequences }, limits)
