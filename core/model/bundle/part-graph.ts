import { type AttentionShape, attentionOf, type LayerShape, layersOf, type RopeName, recurrentOf } from './architecture.ts'
import { codeFormat } from './block-codes.ts'
import { DeltaGraph } from './delta-graph.ts'
import {
  featureInputs,
  graphInputs as inputs,
  kvNames,
  maxTiledHeadDim,
  graphOutputs as outputs,
  type StatesInputNames,
  slotInputs,
  treeNames,
} from './graph-io.ts'
import type { SlotCount } from './manifest.ts'
import { OnnxGraph } from './onnx-writer.ts'
import {
  type AttentionBlock,
  type Block,
  type DeltaBlock,
  type DraftInput,
  type Matrix,
  type MedusaBlocks,
  type Mlp,
  rotaryNames,
  type Vector,
} from './parameters.ts'
import { rotatedOf } from './rope.ts'
import { matrixFormat, matrixNames, type PartPlan } from './weight-plan.ts'

/** The residual `value + pending`. The next normalisation computes the sum in a fused operator. */
interface Residual {
  readonly value: string
  readonly pending: string | undefined
}

/** Inputs of one slot: the lengths of its sequence, its rows and, in a graph for trees, positions and attention bias. */
interface Slot {
  readonly seqlen: string
  readonly total: string
  /** The rows that attention reads: of all slots, or of this one alone. */
  readonly spread: string
  readonly tree: ReturnType<typeof treeNames> | undefined
}

const microsoft = 'com.microsoft' as const

/** What a device computes in. */
export type DeviceType = 'float32' | 'float16'

/**
 * `line`: each row follows the one before. `tree`: rows may follow any earlier row. `grouped`: as `line`, for a few rows of each
 * sequence: attention reads the query heads that share keys and values as rows of their own (docs/adr/0034).
 */
export type GraphForm = 'line' | 'tree' | 'grouped'

/**
 * Builds the graph of one part for packed steps over `slots` sequences. graph-io.ts defines its inputs and outputs. Weights
 * are external data at the positions of the plan.
 * @param device what a device with a memory of its own (a GPU), whose kernels are others, computes in; undefined: for the CPU
 */
export function buildPartGraph(plan: PartPlan, slots: SlotCount, form: GraphForm, device?: DeviceType): Uint8Array {
  return new PartGraph(plan, slots, form, device).build()
}

class PartGraph {
  readonly #graph = new OnnxGraph()
  /** Names of the constants with a shape. */
  readonly #shapes = new Set<string>()
  readonly #plan: PartPlan
  readonly #slotCount: SlotCount
  readonly #form: GraphForm
  readonly #device: DeviceType | undefined
  /** Of norm vectors, scales, activations and KV, and of matrices without codes. */
  readonly #type: DeviceType
  readonly #epsilon: number
  readonly #layers: readonly LayerShape[]

  constructor(plan: PartPlan, slots: SlotCount, form: GraphForm, device: DeviceType | undefined) {
    this.#plan = plan
    this.#device = device
    this.#type = device ?? 'float32'
    this.#slotCount = slots
    this.#form = form
    this.#layers = layersOf(plan.spec)
    this.#epsilon = plan.spec.adapter?.epsilon ?? plan.spec.model.epsilon
  }

  build(): Uint8Array {
    const { part } = this.#plan.spec
    const { blocks, norm, medusa, head } = this.#plan.parameters
    this.#declareWeights()
    this.#graph.int64s('axis.0', [0])
    this.#graph.int64s('axis.1', [1])
    this.#graph.int64s('axis.last', [-1])
    let stream: Residual = { value: this.#inputRows(), pending: undefined }
    const slots = blocks.length > 0 ? this.#declareSlots() : []
    const recurrent = recurrentOf(this.#plan.spec)
    const delta = recurrent && new DeltaGraph(this.#graph, recurrent, slots.length, this.#epsilon)
    blocks.forEach((block, layer) => {
      stream = this.#block(stream, block, layer, slots, delta)
    })
    // The input part returns every row, because all are uploaded. A head without attention is given selected rows.
    const selects = part !== 'input' && slots.length > 0
    if (head) {
      const normalised = this.#select(this.#normalise(stream, norm).normalised, selects)
      this.#outputLogits(medusa ? this.#medusaBlocks(normalised, medusa) : normalised, head, selects)
    } else this.#outputStates(this.#select(this.#normalise(stream, norm).normalised, selects), selects)
    return this.#graph.encode(part)
  }

  #declareWeights(): void {
    for (const { name, type, dims, file, offset, bytes } of this.#plan.weights)
      this.#graph.external(name, type === 'uint8' ? type : this.#type, dims, { location: file, offset, bytes })
  }

  /** The input rows: embedded ids, states from the wire, or both. [1, T, H] */
  #inputRows(): string {
    const { embedding, draftInput } = this.#plan.parameters
    const rows = embedding ? this.#embed(embedding) : this.#inputStates(inputs, 'W')
    return draftInput ? this.#joinFeatures(rows, draftInput) : rows
  }

  /** A row has a deep state, which is normalised, or its guess, which is not; what it has not is zero, normalised too. */
  #joinFeatures(embedded: string, { norm, projection, bias }: DraftInput): string {
    const guesses = this.#inputStates(inputs, 'W')
    const known = this.#rmsNorm(this.#inputStates(featureInputs, 'WF'), norm, this.#plan.spec.draftHead?.llm.epsilon)
    const features = this.#graph.node('Add', [known, guesses])
    const joined = this.#graph.node('Concat', [embedded, features], { attributes: { axis: 2 } })
    return this.#linear(joined, projection, bias)
  }

  #embed(embedding: Matrix): string {
    const ids = this.#graph.input(inputs.ids, 'int64', [1, 'T'])
    const names = matrixNames(embedding)
    const { embedding: scale } = this.#plan.spec.model.scales
    const coded = codeFormat(matrixFormat(this.#plan.spec, embedding))
    if (!coded) return this.#scaled(this.#graph.node('Gather', [names.weight, ids], { attributes: { axis: 0 } }), scale)
    const operands = [names.codes, ids, names.scales, ...(coded.zeroPoints ? [names.zeroPoints] : [])]
    const gathered = this.#graph.node('GatherBlockQuantized', operands, {
      domain: microsoft,
      attributes: { gather_axis: 0, quantize_axis: 1, block_size: coded.blockSize, bits: coded.bits },
    })
    return this.#scaled(gathered, scale)
  }

  #scaled(rows: string, factor: number): string {
    if (factor === 1) return rows
    const name = `factor.${factor}`
    if (!this.#shapes.has(name)) this.#graph.scalar(name, this.#type, factor)
    this.#shapes.add(name)
    return this.#graph.node('Mul', [rows, name])
  }

  #inputStates(names: StatesInputNames, wideRows: string): string {
    const { hidden } = this.#plan.spec.model.dims
    if (this.#device) return this.#fromHost(this.#graph.input(names.rows, 'float32', [1, 'T', hidden]))
    const half = this.#graph.input(names.half, 'float16', [1, 'T', hidden])
    const wide = this.#graph.input(names.wide, 'float32', [wideRows, hidden])
    const wideAt = this.#graph.input(names.wideAt, 'int64', [wideRows, 1])
    const rows = this.#graph.node('Squeeze', [this.#graph.node('Cast', [half], { attributes: { to: 1 } }), 'axis.0'])
    return this.#graph.node('Unsqueeze', [this.#graph.node('ScatterND', [rows, wideAt, wide]), 'axis.0'])
  }

  /** The host has fp32. */
  #fromHost(values: string): string {
    return this.#type === 'float16' ? this.#graph.node('Cast', [values], { attributes: { to: 10 } }) : values
  }

  #toHost(values: string, output: string): void {
    if (this.#type === 'float16') this.#graph.node('Cast', [values], { attributes: { to: 1 }, outputs: [output] })
    else this.#graph.node('Identity', [values], { outputs: [output] })
  }

  #declareSlots(): Slot[] {
    const count = this.#slotCount
    const treeOf = (slot: number) => (this.#form === 'line' ? undefined : this.#declareTree(slot))
    if (this.#device && count > 1) {
      this.#graph.input(inputs.keep, 'int64', ['T'])
      return Array.from({ length: count }, (_, slot) => ({ ...this.#declareApart(slot), tree: treeOf(slot) }))
    }
    const seqlens = this.#graph.input(inputs.seqlens, 'int32', [count])
    const totals = this.#graph.input(inputs.totals, 'int32', [count])
    const trees = Array.from({ length: count }, (_, slot) => treeOf(slot))
    // In a grouped graph both count heads, not rows.
    const unit = this.#form === 'grouped' ? '.heads' : ''
    const spread = this.#graph.input(inputs.spread, 'int64', [`A${unit}`])
    this.#graph.input(inputs.keep, 'int64', [`T${unit}`])
    if (count === 1) return [{ seqlen: seqlens, total: totals, spread, tree: trees[0] }]
    this.#graph.input(inputs.sizes, 'int64', [count])
    this.#graph.int64s('one_each', Array<number>(count).fill(1))
    const each = (name: string) => {
      const pieces = Array.from({ length: count }, (_, slot) => `${name}.${slot}`)
      this.#graph.node('Split', [name, 'one_each'], { attributes: { axis: 0 }, outputs: pieces })
      return pieces
    }
    const [seqlen, total] = [each(seqlens), each(totals)]
    return trees.map((tree, slot) => ({ seqlen: seqlen[slot]!, total: total[slot]!, spread, tree }))
  }

  #declareApart(slot: number): Omit<Slot, 'tree'> {
    const { seqlen, total, spread } = slotInputs(slot)
    this.#graph.input(seqlen, 'int32', [1])
    this.#graph.input(total, 'int32', [1])
    this.#graph.input(spread, 'int64', [`A.${slot}`])
    return { seqlen, total, spread }
  }

  #declareTree(slot: number): ReturnType<typeof treeNames> {
    const names = treeNames(slot)
    this.#graph.input(names.positions, 'int64', [1, `rows.${slot}`])
    const biasOf = (name: string) => this.#fromHost(this.#graph.input(name, 'float32', [1, 1, `rows.${slot}`, `total.${slot}`]))
    const hasFull = this.#layers.some(({ window }) => window === undefined)
    const hasWindow = this.#layers.some(({ window }) => window !== undefined)
    return {
      ...names,
      bias: hasFull ? biasOf(names.bias) : names.bias,
      windowBias: hasWindow ? biasOf(names.windowBias) : names.windowBias,
    }
  }

  #block(stream: Residual, { mixer, mlp }: Block, layer: number, slots: readonly Slot[], delta?: DeltaGraph): Residual {
    const { normalised, value } = this.#normalise(stream, mixer.norm)
    const mixed =
      mixer.kind === 'attention'
        ? this.#attend(this.#addFeatures(normalised, mixer), mixer, layer, slots)
        : this.#deltaNet(normalised, mixer, layer, delta)
    const pending = this.#added(mixed, mixer.after)
    return mlp ? this.#mlp({ value, pending }, mlp) : { value, pending }
  }

  #deltaNet(rows: string, block: DeltaBlock, layer: number, delta: DeltaGraph | undefined): string {
    if (!delta) throw new Error('a recurrent layer has no shape')
    const mixed = delta.mix(this.#linear(rows, block.input, undefined), block, this.#amongItsKind(layer))
    return this.#linear(mixed, block.output, undefined)
  }

  /** The number of a layer among the part's layers with the same mixer: KV and states are numbered so. */
  #amongItsKind(layer: number): number {
    const { mixer } = this.#layers[layer]!
    return this.#layers.slice(0, layer).filter((other) => other.mixer === mixer).length
  }

  /** What attention or MLP add to the residual stream. */
  #added(rows: string, after: Vector | undefined): string {
    const { adapter, model } = this.#plan.spec
    const normalised = after ? this.#normalise({ value: rows, pending: undefined }, after).normalised : rows
    return adapter ? normalised : this.#scaled(normalised, model.scales.residual)
  }

  #addFeatures(rows: string, { features }: AttentionBlock): string {
    if (!features) return rows
    const { normalised } = this.#normalise({ value: this.#inputStates(featureInputs, 'WF'), pending: undefined }, features.norm)
    return this.#graph.node('Add', [rows, this.#linear(normalised, features.projection, undefined)])
  }

  /** Attention per slot, between matrix products over all rows. [1, T, H] */
  #attend(rows: string, block: AttentionBlock, layer: number, slots: readonly Slot[]): string {
    const shape = attentionOf(this.#plan.spec)
    const projected = this.#linear(rows, block.qkv, block.qkvBias)
    const { open, gate } = block.gated ? this.#openGate(projected, shape, layer) : { open: projected, gate: undefined }
    const qkv = this.#normaliseHeads(open, block, shape, layer)
    const { heads, kvHeads, headDim } = shape
    // Of a group, each head becomes a row with as many heads as there are keys and values.
    const read = this.#form === 'grouped' ? { ...shape, heads: kvHeads } : shape
    const own = this.#perSlot(this.#apart(qkv, headDim), slots, layer, (read.heads + 2 * kvHeads) * headDim)
    const attended = slots.map((slot, index) => this.#groupQueryAttention(own[index]!, read, index, layer, slot))
    const joined = attended.length === 1 ? attended[0]! : this.#graph.node('Concat', attended, { attributes: { axis: 1 } })
    const gathered = this.#graph.node('Gather', [this.#apart(joined, headDim), inputs.keep], { attributes: { axis: 1 } })
    const kept = this.#together(gathered, heads * headDim)
    const gated = gate === undefined ? kept : this.#graph.node('Mul', [kept, this.#graph.node('Sigmoid', [gate])])
    return this.#linear(gated, block.output, block.outputBias)
  }

  /** Queries, keys and values, and the gate that follows each query. */
  #openGate(rows: string, { heads, kvHeads, headDim }: AttentionShape, layer: number): { open: string; gate: string } {
    const split = (from: string, sizes: string, axis: number, names: readonly string[]): string[] => {
      const outputs = names.map((name) => `${name}.${layer}`)
      this.#graph.node('Split', [from, sizes], { attributes: { axis }, outputs })
      return outputs
    }
    const both = this.#shapeOf('gated', [2 * heads * headDim, 2 * kvHeads * headDim])
    const [pairs, others] = split(rows, both, 2, ['queries_gates', 'keys_values'])
    const apart = this.#graph.node('Reshape', [pairs!, this.#shapeOf('pairs', [1, -1, heads, 2 * headDim])])
    const halves = split(apart, this.#shapeOf('halves', [headDim, headDim]), 3, ['queries', 'gates'])
    const flat = this.#shapeOf('batch', [1, -1, heads * headDim])
    const [queries, gate] = halves.map((half) => this.#graph.node('Reshape', [half, flat]))
    return { open: this.#graph.node('Concat', [queries!, others!], { attributes: { axis: 2 } }), gate: gate! }
  }

  /** RMSNorm of queries and keys: of each head, or of all heads together. */
  #normaliseHeads(qkv: string, block: AttentionBlock, shape: AttentionShape, layer: number): string {
    const { queryNorm, keyNorm } = block
    if (!queryNorm || !keyNorm) return qkv
    const widths = this.#widthsOf(shape)
    const apart = ['query', 'key', 'value'].map((name) => `${name}.${layer}`)
    this.#graph.node('Split', [qkv, widths], { attributes: { axis: 2 }, outputs: apart })
    const normalised = (rows: string, norm: Vector, width: number) => {
      if (norm.length === width) return this.#rmsNorm(rows, norm)
      const heads = this.#graph.node('Reshape', [rows, this.#shapeOf('heads', [1, -1, norm.length])])
      return this.#graph.node('Reshape', [this.#rmsNorm(heads, norm), this.#shapeOf('batch', [1, -1, width])])
    }
    const query = normalised(apart[0]!, queryNorm, shape.heads * shape.headDim)
    const key = normalised(apart[1]!, keyNorm, shape.kvHeads * shape.headDim)
    return this.#graph.node('Concat', [query, key, apart[2]!], { attributes: { axis: 2 } })
  }

  #widthsOf({ heads, kvHeads, headDim }: AttentionShape): string {
    return this.#shapeOf('qkv', [heads * headDim, kvHeads * headDim, kvHeads * headDim])
  }

  /** In a grouped graph, the heads of each row as rows. */
  #apart(rows: string, headDim: number): string {
    return this.#form === 'grouped' ? this.#graph.node('Reshape', [rows, this.#shapeOf('apart', [1, -1, headDim])]) : rows
  }

  #together(heads: string, width: number): string {
    return this.#form === 'grouped' ? this.#graph.node('Reshape', [heads, this.#shapeOf('batch', [1, -1, width])]) : heads
  }

  /** The rows that attention reads in each slot, on the CPU with a few nodes for any number of slots. @param width of such a row */
  #perSlot(rows: string, slots: readonly Slot[], layer: number, width: number): string[] {
    const gathered = [...new Set(slots.map(({ spread }) => spread))].map((spread) =>
      this.#together(this.#graph.node('Gather', [rows, spread], { attributes: { axis: 1 } }), width),
    )
    if (gathered.length === slots.length) return gathered
    const pieces = slots.map((_, slot) => `rows.${slot}.${layer}`)
    this.#graph.node('Split', [gathered[0]!, inputs.sizes], { attributes: { axis: 1 }, outputs: pieces })
    return pieces
  }

  #groupQueryAttention(qkv: string, shape: AttentionShape, slot: number, layer: number, { seqlen, total, tree }: Slot): string {
    const { heads, kvHeads, headDim } = shape
    const names = kvNames(slot, this.#amongItsKind(layer))
    const past = [1, kvHeads, `capacity.${slot}`, headDim]
    this.#graph.input(names.pastKey, this.#type, past)
    this.#graph.input(names.pastValue, this.#type, past)
    this.#graph.output(names.presentKey, this.#type, past)
    this.#graph.output(names.presentValue, this.#type, past)
    const { rope, window } = this.#layers[layer]!
    // WebGPU's kernel takes no positions, so that rows of a tree are rotated before it.
    const rotated =
      rope && tree && this.#device ? this.#rotate(qkv, shape, slot, layer, { rope, positions: tree.positions }) : undefined
    const rotary = rope && !rotated ? Object.values(rotaryNames(rope)) : ['', '']
    const operands = [...(rotated ?? [qkv, '', '']), names.pastKey, names.pastValue, seqlen, total, ...rotary]
    if (tree) operands.push(rotated || !rope ? '' : tree.positions, window === undefined ? tree.bias : tree.windowBias)
    // The operator has no attribute for it: its tiled kernel does not run if the scores are an output.
    const isTiled = headDim <= maxTiledHeadDim
    const attended = [`attended.${slot}.${layer}`, names.presentKey, names.presentValue]
    return this.#graph.node('GroupQueryAttention', operands, {
      domain: microsoft,
      attributes: {
        num_heads: heads,
        kv_num_heads: kvHeads,
        do_rotary: rotated || !rope ? 0 : 1,
        rotary_interleaved: 0,
        scale: { float: this.#plan.spec.adapter ? headDim ** -0.5 : this.#plan.spec.model.scales.attention },
        // Rows of a tree are not in the order of their positions: their bias has the window.
        ...(window === undefined || tree ? {} : { local_window_size: window }),
        ...(isTiled ? {} : { qk_output: 1 }),
      },
      outputs: isTiled ? attended : [...attended, `scores.${slot}.${layer}`],
    })
  }

  /** Queries and keys at the positions of the rows, and values. */
  #rotate(
    qkv: string,
    shape: AttentionShape,
    slot: number,
    layer: number,
    { rope, positions }: { readonly rope: RopeName; readonly positions: string },
  ): string[] {
    const apart = ['query', 'key', 'value'].map((name) => `${name}.${slot}.${layer}`)
    this.#graph.node('Split', [qkv, this.#widthsOf(shape)], { attributes: { axis: 2 }, outputs: apart })
    const { cos, sin } = rotaryNames(rope)
    const width = rotatedOf(this.#plan.spec.adapter?.rope ?? this.#plan.spec.model.ropes[rope], shape.headDim)
    const partial = (heads: number) => (width === shape.headDim ? {} : { num_heads: heads, rotary_embedding_dim: width })
    const rotated = (rows: string, heads: number) =>
      this.#graph.node('RotaryEmbedding', [rows, positions, cos, sin], {
        domain: microsoft,
        attributes: { interleaved: 0, ...partial(heads) },
      })
    return [rotated(apart[0]!, shape.heads), rotated(apart[1]!, shape.kvHeads), apart[2]!]
  }

  #mlp(stream: Residual, mlp: Mlp): Residual {
    const { normalised, value } = this.#normalise(stream, mlp.norm)
    const gate = this.#linear(normalised, mlp.gate, mlp.gateBias)
    const up = this.#linear(normalised, mlp.up, mlp.upBias)
    const active = this.#plan.spec.model.activation === 'silu' ? this.#silu(gate) : this.#gelu(gate)
    const rows = this.#linear(this.#graph.node('Mul', [active, up]), mlp.down, mlp.downBias)
    return { value, pending: this.#added(rows, mlp.after) }
  }

  /** f + SiLU(W_k·f + b_k) of every row and Medusa head k, heads of a row adjacent. [1, T·K, H] */
  #medusaBlocks(rows: string, { weight, bias }: MedusaBlocks): string {
    const hidden = weight.columns
    const apart = this.#graph.int64s('heads.apart', [1, -1, weight.rows / hidden, hidden])
    const joined = this.#graph.int64s('heads.joined', [1, -1, hidden])
    const change = this.#graph.node('Reshape', [this.#silu(this.#linear(rows, weight, bias)), apart])
    const each = this.#graph.node('Unsqueeze', [rows, this.#graph.int64s('axis.2', [2])])
    return this.#graph.node('Reshape', [this.#graph.node('Add', [each, change]), joined])
  }

  /** QuickGelu with alpha 1 is SiLU: x · sigmoid(x) in one operator. */
  #silu(rows: string): string {
    return this.#graph.node('QuickGelu', [rows], { domain: microsoft, attributes: { alpha: { float: 1 } } })
  }

  /** With the approximation by tanh. */
  #gelu(rows: string): string {
    return this.#graph.node('FastGelu', [rows], { domain: microsoft })
  }

  #rmsNorm(rows: string, { name }: Vector, epsilon = this.#epsilon): string {
    const attributes = { axis: -1, epsilon: { float: epsilon }, stash_type: 1 }
    return this.#graph.node('SimplifiedLayerNormalization', [rows, name], { attributes })
  }

  /** RMSNorm of value + pending, and the sum. Without a weight: the sum alone. */
  #normalise({ value, pending }: Residual, weight: Vector | undefined): { normalised: string; value: string } {
    if (!weight) {
      const total = this.#sum({ value, pending })
      return { normalised: total, value: total }
    }
    const epsilon = { float: this.#epsilon }
    if (pending === undefined) return { normalised: this.#rmsNorm(value, weight), value }
    const sum = `${weight.name}.sum`
    const names = [`${weight.name}.out`, '', '', sum]
    const options = { domain: microsoft, attributes: { epsilon }, outputs: names }
    return {
      normalised: this.#graph.node('SkipSimplifiedLayerNormalization', [value, pending, weight.name], options),
      value: sum,
    }
  }

  /** x·Wᵀ + b with weights in the checkpoint's [out, in] layout. */
  #linear(x: string, matrix: Matrix, bias: Vector | undefined, output?: string): string {
    const named = output === undefined ? {} : { outputs: [output] }
    const names = matrixNames(matrix)
    const format = matrixFormat(this.#plan.spec, matrix)
    const coded = codeFormat(format)
    if (coded) {
      const size = { K: matrix.columns, N: matrix.rows, bits: coded.bits, block_size: coded.blockSize }
      const attributes = { ...size, accuracy_level: format.accuracyLevel }
      const zeroPoints = coded.zeroPoints ? names.zeroPoints : ''
      const optional = bias ? [zeroPoints, '', bias.name] : coded.zeroPoints ? [zeroPoints] : []
      const operands = [x, names.codes, names.scales, ...optional]
      return this.#graph.node('MatMulNBits', operands, { domain: microsoft, attributes, ...named })
    }
    if (this.#device) return this.#gemm(x, matrix, bias, named)
    const options = { domain: microsoft, attributes: { transB: 1 } }
    if (!bias) return this.#graph.node('FusedMatMul', [x, names.weight], { ...options, ...named })
    return this.#graph.node('Add', [this.#graph.node('FusedMatMul', [x, names.weight], options), bias.name], named)
  }

  /** GPUs have no kernel of FusedMatMul; Gemm takes matrices, not batches. */
  #gemm(x: string, { name, rows, columns }: Matrix, bias: Vector | undefined, named: { readonly outputs?: string[] }): string {
    const flat = this.#graph.node('Reshape', [x, this.#shapeOf('flat', [-1, columns])])
    const product = this.#graph.node('Gemm', [flat, `${name}.weight`, ...(bias ? [bias.name] : [])], {
      attributes: { transB: 1 },
    })
    return this.#graph.node('Reshape', [product, this.#shapeOf('batch', [1, -1, rows])], named)
  }

  #shapeOf(kind: string, dims: number[]): string {
    const name = `${kind}.${dims.at(-1)}`
    if (!this.#shapes.has(name)) this.#graph.int64s(name, dims)
    this.#shapes.add(name)
    return name
  }

  #sum({ value, pending }: Residual): string {
    return pending === undefined ? value : this.#graph.node('Add', [value, pending])
  }

  #select(rows: string, selects: boolean): string {
    if (!selects) return rows
    return this.#graph.node('Gather', [rows, this.#graph.input(inputs.select, 'int64', ['M'])], { attributes: { axis: 1 } })
  }

  /** Outputs the rows in fp32, in fp16 for the wire, and their largest magnitude, which shows whether fp16 can represent them. */
  #outputStates(rows: string, selects: boolean): void {
    const shape = [1, selects ? 'M' : 'T']
    const { hidden } = this.#plan.spec.model.dims
    this.#toHost(rows, outputs.states)
    this.#graph.output(outputs.states, 'float32', [...shape, hidden])
    if (this.#device) return
    this.#graph.node('Cast', [rows], { attributes: { to: 10 }, outputs: [outputs.statesHalf] })
    const magnitude = this.#graph.node('Abs', [rows])
    this.#graph.node('ReduceMax', [magnitude, 'axis.last'], { attributes: { keepdims: 0 }, outputs: [outputs.peak] })
    this.#graph.output(outputs.statesHalf, 'float16', [...shape, hidden])
    this.#graph.output(outputs.peak, 'float32', shape)
  }

  #outputLogits(rows: string, head: Matrix, selects: boolean): void {
    const { part, model } = this.#plan.spec
    const isPlain = model.scales.logits === 1
    if (this.#type === 'float16' || !isPlain)
      this.#toHost(this.#scaled(this.#linear(rows, head, undefined), model.scales.logits), outputs.logits)
    else this.#linear(rows, head, undefined, outputs.logits)
    this.#graph.output(outputs.logits, 'float32', [1, selects ? 'M' : part === 'medusa' ? 'TK' : 'T', model.dims.vocab])
  }
}
