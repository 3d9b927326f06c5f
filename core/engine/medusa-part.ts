import type { Dims } from '../model/manifest.ts'
import type { States } from '../protocol/states.ts'
import type { MedusaHeads } from './contract.ts'
import { LogitsPart } from './logits-part.ts'
import type { PartSource } from './part-sessions.ts'

/** `medusa`: the LLM's final normalisation, the heads' blocks, and the LLM's head. */
export class MedusaPart implements MedusaHeads {
  readonly heads: number
  readonly tree: readonly (readonly number[])[]
  readonly #part: LogitsPart

  constructor(source: PartSource, dims: Dims) {
    const { heads, tree } = source.manifest
    if (heads === undefined || tree === undefined) throw new Error('the manifest was not checked')
    this.heads = heads
    this.tree = tree
    this.#part = new LogitsPart(source, dims, heads)
  }

  prepare(): Promise<void> {
    return this.#part.prepare()
  }

  guess(deep: States): Promise<Float32Array> {
    return this.#part.logits(deep)
  }

  release(): Promise<void> {
    return this.#part.release()
  }
}
