import type { States } from '../../wire/protocol/states.ts'
import { draftOutput, encoder, type Manifest, type PartName } from '../bundle/manifest.ts'
import type { StepItem } from './contract.ts'
import type { LoadedModel } from './open-model.ts'

/** Rows of a prompt's chunk. */
const chunkRows = 64
/** Rows of a prompt, one by one, are how an answer is made. */
const singleRows = 16

/**
 * Seconds for two chunks of a prompt and single rows through each part, after one of each to warm up: compiled shaders, touched
 * memory. Of the drafters only what a device drafts with.
 */
export async function measureParts(model: LoadedModel, { dims }: Manifest, parts: readonly PartName[]): Promise<number> {
  const rounds = parts.filter((part) => part !== 'medusa').map((part) => roundOf(model, part, dims))
  for (const round of rounds) await round()
  const startedMs = performance.now()
  for (const round of rounds) await round()
  return (performance.now() - startedMs) / 1_000
}

function roundOf(model: LoadedModel, part: PartName, { hidden, contextLimit }: Manifest['dims']): () => Promise<void> {
  const chunk = Math.min(chunkRows, Math.floor(contextLimit / 4))
  const single = Math.min(singleRows, Math.floor(contextLimit / 4))
  const sizes = [chunk, chunk, ...Array<number>(single).fill(1)]
  const states = (rows: number): States => ({ rows, width: hidden, half: new Uint16Array(rows * hidden).fill(oneHalf) })
  if (part === 'output' || part === draftOutput)
    return async () => {
      // A prompt needs the logits of its last row only.
      for (let at = 0; at < single; at++) await model.head(part).logits(states(1))
    }
  if (part === 'whole') {
    const chain = model.chain({ cuts: 'full' })
    return async () => {
      const sequence = chain.createSequence()
      for (const rows of sizes) await chain.step([{ sequence, ids: Array<number>(rows).fill(0), select: 'last' }])
      sequence.release()
    }
  }
  const own = model.part(part)
  return async () => {
    const sequence = own.createSequence()
    for (const rows of sizes) {
      const { features, draftHead } = own.manifest
      const readsIds = part === 'input' || part === encoder
      const ids = readsIds || draftHead ? { ids: Array<number>(rows).fill(0) } : {}
      const given = readsIds ? {} : { states: states(rows), ...(features ? { features: states(rows) } : {}) }
      await own.step([{ sequence, select: 'last', ...ids, ...given } as StepItem])
    }
    sequence.release()
  }
}

/** 0.5 in fp16. */
const oneHalf = 0x3800
