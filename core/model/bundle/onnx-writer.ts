import { encodeHalves } from '../../kit/base/half.ts'

/** ONNX's protobuf, written by hand: field numbers are those of onnx.proto (IR 10, opset 21, com.microsoft 1). */

const elementTypes = { float32: 1, uint8: 2, int32: 6, int64: 7, float16: 10 } as const
type ElementType = keyof typeof elementTypes

/** A plain number is an ONNX int. Floats are marked, because JavaScript cannot tell 1 from 1.0. */
type Attribute = number | { float: number }

export interface NodeOptions {
  readonly attributes?: Readonly<Record<string, Attribute>>
  readonly domain?: 'com.microsoft'
  /** Names of the outputs; '' omits an optional output. Default: one output with a new name. */
  readonly outputs?: readonly string[]
}

/** Position of a tensor's bytes in another file in the graph's folder. */
interface ExternalData {
  readonly location: string
  readonly offset: number
  readonly bytes: number
}

/** A string is a symbolic dimension. */
export type Shape = readonly (number | string)[]

/** A graph under construction. Node outputs get new names unless the caller gives them. */
export class OnnxGraph {
  readonly #nodes: Message[] = []
  readonly #initializers: Message[] = []
  readonly #inputs: Message[] = []
  readonly #outputs: Message[] = []
  #count = 0

  input(name: string, type: ElementType, shape: Shape): string {
    this.#inputs.push(valueInfo(name, type, shape))
    return name
  }

  output(name: string, type: ElementType, shape: Shape): string {
    this.#outputs.push(valueInfo(name, type, shape))
    return name
  }

  /** Adds a constant without axes. */
  scalar(name: string, type: 'float32' | 'float16', value: number): string {
    const bytes = Buffer.alloc(type === 'float32' ? 4 : 2)
    if (type === 'float32') bytes.writeFloatLE(value)
    else {
      const half = new Uint16Array(1)
      encodeHalves(Float32Array.of(value), half)
      bytes.writeUInt16LE(half[0]!)
    }
    this.#initializers.push(tensor(name, type, []).bytes(9, bytes))
    return name
  }

  /** Adds a small constant, stored in the graph itself. */
  int64s(name: string, values: readonly number[]): string {
    const data = Buffer.from(BigInt64Array.from(values, BigInt).buffer)
    this.#initializers.push(tensor(name, 'int64', [values.length]).bytes(9, data))
    return name
  }

  /** As `int64s`. */
  float32s(name: string, values: Float32Array): string {
    const data = Buffer.from(values.buffer, values.byteOffset, values.byteLength)
    this.#initializers.push(tensor(name, 'float32', [values.length]).bytes(9, data))
    return name
  }

  external(name: string, type: ElementType, dims: readonly number[], data: ExternalData): string {
    const proto = tensor(name, type, dims)
    const entry = (key: string, value: string | number) => proto.message(13, new Message().text(1, key).text(2, String(value)))
    entry('location', data.location)
    entry('offset', data.offset)
    entry('length', data.bytes)
    this.#initializers.push(proto.int(14, 1))
    return name
  }

  /** @returns the name of the first output */
  node(op: string, inputs: readonly string[], options: NodeOptions = {}): string {
    const name = `${op}_${this.#count++}`
    const outputs = options.outputs ?? [`${name}_out`]
    const proto = new Message()
    for (const input of inputs) proto.text(1, input)
    for (const output of outputs) proto.text(2, output)
    proto.text(3, name).text(4, op)
    for (const [key, value] of Object.entries(options.attributes ?? {})) proto.message(5, attribute(key, value))
    if (options.domain) proto.text(7, options.domain)
    this.#nodes.push(proto)
    return outputs[0] ?? ''
  }

  /** The model file. */
  encode(graphName: string): Uint8Array {
    const graph = new Message()
    for (const node of this.#nodes) graph.message(1, node)
    graph.text(2, graphName)
    for (const initializer of this.#initializers) graph.message(5, initializer)
    for (const input of this.#inputs) graph.message(11, input)
    for (const output of this.#outputs) graph.message(12, output)
    const model = new Message().int(1, 10).text(2, 'brim').message(7, graph)
    model.message(8, new Message().text(1, '').int(2, 21))
    model.message(8, new Message().text(1, 'com.microsoft').int(2, 1))
    return model.encode()
  }
}

function tensor(name: string, type: ElementType, dims: readonly number[]): Message {
  const proto = new Message()
  for (const dim of dims) proto.int(1, dim)
  return proto.int(2, elementTypes[type]).text(8, name)
}

function valueInfo(name: string, type: ElementType, shape: Shape): Message {
  const dims = new Message()
  for (const dim of shape) dims.message(1, typeof dim === 'string' ? new Message().text(2, dim) : new Message().int(1, dim))
  const tensorType = new Message().int(1, elementTypes[type]).message(2, dims)
  return new Message().text(1, name).message(2, new Message().message(1, tensorType))
}

function attribute(name: string, value: Attribute): Message {
  const proto = new Message().text(1, name)
  return typeof value === 'number' ? proto.int(3, value).int(20, 2) : proto.float(2, value.float).int(20, 1)
}

/** One protobuf message: fields are appended in the order of the calls. */
class Message {
  readonly #pieces: Uint8Array[] = []
  #length = 0

  /** Non-negative up to 2^53, or small negative (ten bytes, two's complement). */
  int(field: number, value: number): this {
    return this.#varint(field * 8).#varint(value)
  }

  float(field: number, value: number): this {
    const bytes = Buffer.alloc(4)
    bytes.writeFloatLE(value)
    return this.#varint(field * 8 + 5).#append(bytes)
  }

  text(field: number, value: string): this {
    return this.bytes(field, Buffer.from(value, 'utf8'))
  }

  bytes(field: number, value: Uint8Array): this {
    return this.#varint(field * 8 + 2)
      .#varint(value.length)
      .#append(value)
  }

  message(field: number, value: Message): this {
    this.#varint(field * 8 + 2).#varint(value.#length)
    for (const piece of value.#pieces) this.#append(piece)
    return this
  }

  encode(): Uint8Array {
    return Buffer.concat(this.#pieces, this.#length)
  }

  #varint(value: number): this {
    if (value >= 0 && value < 0x80) return this.#append(Uint8Array.of(value))
    const bytes: number[] = []
    let rest = BigInt.asUintN(64, BigInt(value))
    while (rest >= 0x80n) {
      bytes.push(Number(rest & 0x7fn) | 0x80)
      rest >>= 7n
    }
    bytes.push(Number(rest))
    return this.#append(Uint8Array.from(bytes))
  }

  #append(bytes: Uint8Array): this {
    this.#pieces.push(bytes)
    this.#length += bytes.length
    return this
  }
}
