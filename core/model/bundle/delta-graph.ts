import { convChannels, type DeltaShape } from './architecture.ts'
import { graphInputs, recurrentNames } from './graph-io.ts'
import type { OnnxGraph } from './onnx-writer.ts'
import type { DeltaBlock } from './parameters.ts'

const domain = 'com.microsoft' as const

/** The ε of transformers' l2norm. */
const unitEpsilon = 1e-6

/**
 * Nodes of Gated DeltaNet (Yang et al. 2024, arXiv:2412.06464) as Qwen3.5 has it, for the CPU. The state of each slot comes in
 * after the rows before and goes out after the slot's own rows; graph-io.ts names both.
 */
export class DeltaGraph {
  readonly #graph: OnnxGraph
  readonly #shape: DeltaShape
  readonly #slots: number
  readonly #epsilon: number

  /** @param epsilon of the model's RMSNorm */
  constructor(graph: OnnxGraph, shape: DeltaShape, slots: number, epsilon: number) {
    this.#graph = graph
    this.#shape = shape
    this.#slots = slots
    this.#epsilon = epsilon
    const { keyHeads, valueHeads, keyDim, valueDim } = shape
    graph.input(graphInputs.ownRows, 'int64', ['O'])
    graph.input(graphInputs.ownKeep, 'int64', ['T'])
    if (slots > 1) graph.input(graphInputs.ownSizes, 'int64', [slots])
    graph.int64s('delta.inputs', [convChannels(shape), valueHeads * valueDim, valueHeads, valueHeads])
    graph.int64s('delta.qkv', [keyHeads * keyDim, keyHeads * keyDim, valueHeads * valueDim])
    graph.int64s('delta.keys', [1, -1, keyHeads, keyDim])
    graph.int64s('delta.values', [1, -1, valueHeads, valueDim])
    graph.int64s('delta.flat_keys', [1, -1, keyHeads * keyDim])
    graph.int64s('delta.flat_values', [1, -1, valueHeads * valueDim])
    graph.float32s('delta.unit', new Float32Array(keyDim).fill(1 / Math.sqrt(keyDim)))
  }

  /**
   * @param projected [1, T, channels + valueHeads · (valueDim + 2)]
   * @param layer number of the recurrent layer within the part, from 0
   * @returns [1, T, valueHeads · valueDim], before the projection
   */
  mix(projected: string, block: DeltaBlock, layer: number): string {
    const rows = this.#graph.node('Gather', [projected, graphInputs.ownRows], { attributes: { axis: 1 } })
    const [mixed, gate, rates, decays] = this.#split(rows, 'delta.inputs', `delta.${layer}`, 4)
    const own = [mixed!, rates!, decays!].map((each, at) => this.#perSlot(each, `delta.${layer}.${at}`))
    const outputs = Array.from({ length: this.#slots }, (_, slot) =>
      this.#recur([own[0]![slot]!, own[1]![slot]!, own[2]![slot]!], block, slot, layer),
    )
    const joined = outputs.length === 1 ? outputs[0]! : this.#graph.node('Concat', outputs, { attributes: { axis: 1 } })
    const gated = this.#gate(joined, gate!, block)
    return this.#graph.node('Gather', [gated, graphInputs.ownKeep], { attributes: { axis: 1 } })
  }

  #perSlot(rows: string, name: string): string[] {
    return this.#slots === 1 ? [rows] : this.#split(rows, graphInputs.ownSizes, name, this.#slots, 1)
  }

  #split(rows: string, sizes: string, name: string, count: number, axis = 2): string[] {
    const outputs = Array.from({ length: count }, (_, at) => `${name}.part.${at}`)
    this.#graph.node('Split', [rows, sizes], { attributes: { axis }, outputs })
    return outputs
  }

  /** The convolution and the recurrence over the rows of one slot. */
  #recur([mixed, rates, decays]: readonly [string, string, string], block: DeltaBlock, slot: number, layer: number): string {
    const { keyHeads, valueHeads, keyDim, valueDim, taps } = this.#shape
    const graph = this.#graph
    const names = recurrentNames(slot, layer)
    const convDims = [1, taps - 1, convChannels(this.#shape)]
    const deltaDims = [1, valueHeads, keyDim, valueDim]
    graph.input(names.pastConv, 'float32', convDims)
    graph.input(names.pastDelta, 'float32', deltaDims)
    graph.output(names.presentConv, 'float32', convDims)
    graph.output(names.presentDelta, 'float32', deltaDims)
    const convolved = graph.node('CausalConvWithState', [mixed, block.conv.name, '', names.pastConv], {
      domain,
      attributes: { channels_last: 1 },
      outputs: [`conv.${slot}.${layer}`, names.presentConv],
    })
    const [query, key, value] = this.#split(this.#silu(convolved), 'delta.qkv', `qkv.${slot}.${layer}`, 3)
    const [decay, rate] = [`decay.${slot}.${layer}`, `rate.${slot}.${layer}`]
    graph.node('LinearAttentionGate', [decays, block.decayBias.name, block.decayScale.name, rates], {
      domain,
      outputs: [decay, rate],
    })
    return graph.node('LinearAttention', [this.#unit(query!), this.#unit(key!), value!, names.pastDelta, decay, rate], {
      domain,
      attributes: { q_num_heads: keyHeads, kv_num_heads: valueHeads },
      outputs: [`delta.${slot}.${layer}`, names.presentDelta],
    })
  }

  /** Each head divided by its length: RMSNorm of n values, scaled by 1/√n. */
  #unit(rows: string): string {
    const epsilon = { float: unitEpsilon / this.#shape.keyDim }
    return this.#eachHead(rows, 'delta.unit', epsilon, 'delta.keys', 'delta.flat_keys')
  }

  /** RMSNorm(rows) · SiLU(gate), head by head. */
  #gate(rows: string, gate: string, { outputNorm }: DeltaBlock): string {
    const normalised = this.#eachHead(rows, outputNorm.name, { float: this.#epsilon }, 'delta.values', 'delta.flat_values')
    return this.#graph.node('Mul', [normalised, this.#silu(gate)])
  }

  #eachHead(rows: string, weight: string, epsilon: { float: number }, apart: string, flat: string): string {
    const heads = this.#graph.node('Reshape', [rows, apart])
    const attributes = { axis: -1, epsilon, stash_type: 1 }
    return this.#graph.node('Reshape', [this.#graph.node('SimplifiedLayerNormalization', [heads, weight], { attributes }), flat])
  }

  #silu(rows: string): string {
    return this.#graph.node('QuickGelu', [rows], { domain, attributes: { alpha: { float: 1 } } })
  }
}
