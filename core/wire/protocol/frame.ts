import { BrimError } from '../../kit/base/errors.ts'
import { fromInt8, maxScale, toInt8 } from './int8.ts'
import type { RowCoder } from './row-coder.ts'
import { type CodedSize, codedBytes, codedRows, typicalSize } from './state-coding.ts'
import { type States, withWideRow } from './states.ts'

/**
 * Binary frames of the data plane (WebSocket). Little-endian header of 40 bytes, then the payload:
 *
 *   0 u8  version     4 u32 epoch        16 u32 seq     28 u32 want
 *   1 u8  type        8 u64 session      20 u32 base    32 f32 queueMs
 *   2 u8  dtype                          24 u32 n       36 f32 computeMs
 *   3 u8  flags
 *
 * Rows are n × width halves (dtype fp16), n × f32 scale and n × width signed bytes (int8), or a block of RowCoder (fp16c).
 * - `flags & WIDE`: u32 count, count × u32 row number and count × width fp32 values follow, for the rows that the dtype
 *   cannot hold. These are rows beyond fp16's range and, as int8, the row of position 0, whose values are outliers.
 * - `flags & PADDED`: meaningless bytes follow, up to the length of a verification with the bridge's draft limit. They hide
 *   the row count of a verification from observers of frame lengths.
 * - `flags & TREE`: the payload starts with u16 count, count × u16 (`kept`), u16 count and count × i16 (`parents`): see
 *   FrameTree.
 *
 * Frames are idempotent: the bridge requires base ≤ its length, truncates to base and appends n rows. It answers a base
 * beyond its length with GAP (base = its length), and a repeated seq with the cached reply. Hence a rollback needs no
 * message.
 */
export const frameVersion = 1
export const headerBytes = 40

export const frameTypes = {
  /** Device → bridge: n shallow rows for positions base … base + n − 1; requests the deep rows of the last `want`. */
  rows: 1,
  /** Bridge → device: n deep rows, the last ones of the frame with the same seq; n may be 0. */
  deep: 2,
  /** Bridge → device: the frame of this seq left a gap; `base` is the length that the bridge holds. */
  gap: 3,
  /** Bridge → device: the session has ended; payload is JSON {code, message}. */
  fault: 4,
  /** Either way, session 0: meaningless bytes that measure an idle link (probe.ts). */
  probe: 5,
} as const
export type FrameType = keyof typeof frameTypes
const typeNames = new Map<number, FrameType>(Object.entries(frameTypes).map(([name, id]) => [id, name as FrameType]))

export const dtypes = { none: 0, fp16: 1, int8: 2, fp16c: 3 } as const
/**
 * Encodings of hidden states. `fp16c` is fp16 coded without loss, both ways, by the tables of the bundle. `int8` halves the
 * bytes up but changes the states, and so possibly the answer.
 */
export const wires = ['fp16c', 'fp16', 'int8'] as const
export type Wire = (typeof wires)[number]
export type UncodedWire = Exclude<Wire, 'fp16c'>

/** Bytes that each further row takes on the wire. @param size of coded rows; default: typical ones */
export function rowBytes(wire: Wire, width: number, size: CodedSize = typicalSize(width)): number {
  if (wire === 'fp16c') return width + size.rowBits / 8
  return wire === 'fp16' ? 2 * width : width + 4
}

/** Bytes of a frame's rows. @param size as of rowBytes */
export const rowsBytes = (wire: Wire, rows: number, width: number, size: CodedSize = typicalSize(width)): number =>
  wire === 'fp16c' ? codedBytes(size, rows) : rows * rowBytes(wire, width)

const flagWide = 1
const flagPadded = 2
const flagTree = 4

/** Largest frame that either side accepts: a prefill chunk of 2,048 rows of width 8,192. */
export const maxFrameBytes = headerBytes + 2_048 * 8_192 * 2 + 1024

/**
 * Size of the largest frame of this many rows, in any form: every row wide and part of a tree, after a tree as large.
 * @returns at most `maxFrameBytes`
 */
export function maxFrameBytesOf(rows: number, width: number): number {
  const treeBytes = 4 + rows * 2 * 2
  const stateBytes = rows * Math.max(rowBytes('fp16', width), rowBytes('int8', width))
  const wideBytes = 4 + rows * (4 + width * 4)
  return Math.min(maxFrameBytes, headerBytes + treeBytes + stateBytes + wideBytes)
}

export interface FrameHeader {
  readonly type: FrameType
  readonly session: bigint
  readonly epoch: number
  readonly seq: number
  readonly base: number
  readonly n: number
  readonly want: number
  readonly queueMs: number
  readonly computeMs: number
}

/** Token trees: drafts that branch. */
export interface FrameTree {
  /**
   * Accepted rows of the tree in the session's last frame, numbered from its first row, ascending. They form a path, and
   * `base` is the position after it. Empty: none.
   */
  readonly kept: readonly number[]
  /** For each row of this frame its parent row in the frame; -1: the position before `base`. Empty: the rows are a path. */
  readonly parents: readonly number[]
}

export interface Frame extends FrameHeader {
  readonly tree?: FrameTree
  readonly dtype: number
  readonly flags: number
  /** A view of the received bytes, after the tree. */
  readonly payload: Uint8Array
}

export type FrameFields = Pick<FrameHeader, 'type' | 'session' | 'epoch' | 'seq'> & Partial<FrameHeader>

export interface FrameForm {
  /** Default: fp16; coded rows where there is a coder. */
  readonly wire?: UncodedWire
  /** Codes the rows. Those that do not fit its length travel as fp16. */
  readonly coder?: RowCoder | undefined
  /** The frame is as long as if it had at least this many rows; absent: no padding. */
  readonly paddedRows?: number | undefined
  readonly tree?: FrameTree | undefined
}

/** @param body states (rows, deep) or raw bytes (fault) */
export function encodeFrame(fields: FrameFields, body?: States | Uint8Array, form: FrameForm = {}): Uint8Array {
  const { paddedRows, coder } = form
  const tree = form.tree && encodeTree(form.tree)
  const states = body && 'rows' in body ? body : undefined
  const raw = body && !('rows' in body) ? body : undefined
  const coded = states && coder?.encode(states.half, states.rows, states.wide?.index)
  const wire = coded ? 'fp16c' : (form.wire ?? 'fp16')
  const exact = states && wire === 'int8' && fields.base === 0 ? withWideRow(states, 0) : states
  const wide = exact?.wide && exact.wide.index.length > 0 ? exact.wide : undefined
  const bytesOfRows = (rows: number) => (states ? rowsBytes(wire, rows, states.width, coder) : 0)
  const stateBytes = bytesOfRows(states?.rows ?? 0)
  const wideBytes = wide ? 4 + wide.index.length * 4 + wide.values.byteLength : 0
  const minBytes = paddedRows === undefined ? 0 : bytesOfRows(paddedRows)
  const start = headerBytes + (tree?.byteLength ?? 0)
  const out = new Uint8Array(start + Math.max(stateBytes + wideBytes, minBytes) + (raw?.byteLength ?? 0))
  const view = new DataView(out.buffer)
  view.setUint8(0, frameVersion)
  view.setUint8(1, frameTypes[fields.type])
  view.setUint8(2, states ? dtypes[wire] : dtypes.none)
  view.setUint8(3, (wide ? flagWide : 0) | (states && paddedRows !== undefined ? flagPadded : 0) | (tree ? flagTree : 0))
  view.setUint32(4, fields.epoch, true)
  view.setBigUint64(8, fields.session, true)
  view.setUint32(16, fields.seq, true)
  view.setUint32(20, fields.base ?? 0, true)
  view.setUint32(24, states ? states.rows : (fields.n ?? 0), true)
  view.setUint32(28, fields.want ?? 0, true)
  view.setFloat32(32, fields.queueMs ?? 0, true)
  view.setFloat32(36, fields.computeMs ?? 0, true)
  if (tree) out.set(tree, headerBytes)
  if (coded) out.set(coded, start)
  if (states && wire === 'fp16') out.set(bytesOf(states.half.subarray(0, states.rows * states.width)), start)
  if (states && wire === 'int8') {
    const { scales, values } = toInt8(states)
    out.set(bytesOf(scales), start)
    out.set(bytesOf(values), start + scales.byteLength)
  }
  if (wide) {
    let at = start + stateBytes
    view.setUint32(at, wide.index.length, true)
    at += 4
    for (const row of wide.index) {
      view.setUint32(at, row, true)
      at += 4
    }
    out.set(bytesOf(wide.values), at)
  }
  if (raw) out.set(raw, start)
  return out
}

/** Does not check the payload: `decodeStates` does. @throws BrimError FRAME_INVALID, PROTOCOL_VERSION */
export function decodeFrame(bytes: Uint8Array): Frame {
  if (bytes.byteLength < headerBytes) throw invalid(`a frame of ${bytes.byteLength} bytes is shorter than its header`)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const version = view.getUint8(0)
  if (version !== frameVersion)
    throw new BrimError('PROTOCOL_VERSION', `frame of version ${version}; this release reads version ${frameVersion}`, {
      hint: 'update agent and bridge to the same release',
    })
  const type = typeNames.get(view.getUint8(1))
  if (!type) throw invalid(`unknown frame type ${view.getUint8(1)}`)
  const flags = view.getUint8(3)
  const n = view.getUint32(24, true)
  const body = bytes.subarray(headerBytes)
  const { tree, rest } = (flags & flagTree) === 0 ? { tree: undefined, rest: body } : decodeTree(body, n)
  return {
    type,
    dtype: view.getUint8(2),
    flags,
    ...(tree ? { tree } : {}),
    epoch: view.getUint32(4, true),
    session: view.getBigUint64(8, true),
    seq: view.getUint32(16, true),
    base: view.getUint32(20, true),
    n,
    want: view.getUint32(28, true),
    queueMs: view.getFloat32(32, true),
    computeMs: view.getFloat32(36, true),
    payload: rest,
  }
}

/**
 * The rows of a `rows` or `deep` frame, copied out of the received bytes.
 * @param maxPaddedRows a padded frame is at most as long as one of so many rows, or as its own rows
 * @param coder of coded rows; absent: they are refused
 * @throws BrimError FRAME_INVALID when type, length or row numbers do not fit, before memory is allocated for them
 */
export function decodeStates(
  frame: Frame,
  width: number,
  maxPaddedRows = Number.POSITIVE_INFINITY,
  coder?: RowCoder | undefined,
): States {
  const rows = frame.n
  const { payload, dtype } = frame
  const wire = wireOf(frame, coder)
  if (rows > 0 && !wire) throw invalid(`rows of unknown dtype ${dtype}`)
  if ((frame.flags & ~(flagWide | flagPadded | flagTree)) !== 0) throw invalid(`unknown flags ${frame.flags}`)
  const stateBytes = rowsBytes(wire ?? 'fp16', rows, width, coder)
  if (payload.byteLength < stateBytes)
    throw invalid(`${rows} rows of width ${width} need ${stateBytes} bytes, the frame has ${payload.byteLength}`)
  const rest = payload.subarray(stateBytes)
  const isWide = (frame.flags & flagWide) !== 0
  const wideCount = isWide ? decodeWideCount(rest, rows) : 0
  const paddingBytes = rest.byteLength - (isWide ? wideBlockBytes(wideCount, width) : 0)
  const isPadded = (frame.flags & flagPadded) !== 0
  if (isWide && (isPadded ? paddingBytes < 0 : paddingBytes !== 0))
    throw invalid(`${wideCount} wide rows do not fill the rest of the frame`)
  if (paddingBytes > 0 && !isPadded) throw invalid(`${paddingBytes} bytes after the last row`)
  if (paddingBytes > 0 && payload.byteLength > rowsBytes(wire ?? 'fp16', maxPaddedRows, width, coder))
    throw invalid(`it is padded by ${paddingBytes} bytes, beyond the length of ${maxPaddedRows} rows`)
  const wide = isWide ? decodeWide(rest, wideCount, rows, width) : undefined
  const shape = { rows, width, ...(wide ? { wide } : {}) }
  return { ...shape, half: decodeRows(wire, payload.subarray(0, stateBytes), shape, coder) }
}

/** Undefined: none, or coded rows without a coder. */
function wireOf({ dtype }: Frame, coder: RowCoder | undefined): Wire | undefined {
  const wire = wires.find((name) => dtypes[name] === dtype)
  return wire === 'fp16c' && !coder ? undefined : wire
}

type Shape = Omit<States, 'half'>

function decodeRows(wire: Wire | undefined, bytes: Uint8Array, { rows, width, wide }: Shape, coder: RowCoder | undefined) {
  if (wire === 'int8') return decodeInt8(bytes, rows, width)
  if (wire === 'fp16c') {
    const half = coder?.decode(bytes, rows, wide?.index)
    if (!half) throw invalid(`the codes of ${rows} rows are longer than the frame`)
    return half
  }
  const half = new Uint16Array(rows * width)
  bytesOf(half).set(bytes)
  return half
}

function decodeInt8(payload: Uint8Array, rows: number, width: number): Uint16Array {
  const scales = new Float32Array(rows)
  const values = new Int8Array(rows * width)
  bytesOf(scales).set(payload.subarray(0, scales.byteLength))
  bytesOf(values).set(payload.subarray(scales.byteLength, scales.byteLength + values.byteLength))
  const bad = scales.findIndex((scale) => !(scale >= 0 && scale <= maxScale))
  if (bad >= 0) throw invalid(`row ${bad} has the scale ${scales[bad]}`)
  return fromInt8({ scales, values }, width)
}

/** Bytes of a count, row numbers and values of wide rows. */
const wideBlockBytes = (count: number, width: number): number => 4 + count * (4 + width * 4)

function decodeWideCount(rest: Uint8Array, rows: number): number {
  if (rest.byteLength < 4) throw invalid('truncated count of wide rows')
  const count = new DataView(rest.buffer, rest.byteOffset, rest.byteLength).getUint32(0, true)
  if (count === 0 || count > rows) throw invalid(`${count} wide rows in a block of ${rows}`)
  return count
}

function decodeWide(rest: Uint8Array, count: number, rows: number, width: number) {
  const view = new DataView(rest.buffer, rest.byteOffset, rest.byteLength)
  const index: number[] = []
  for (let i = 0; i < count; i++) {
    const row = view.getUint32(4 + i * 4, true)
    if (row >= rows || (i > 0 && row <= index[i - 1]!)) throw invalid(`wide row ${row} is out of order or out of range`)
    index.push(row)
  }
  const values = new Float32Array(count * width)
  bytesOf(values).set(rest.subarray(4 + count * 4, wideBlockBytes(count, width)))
  return { index, values }
}

function encodeTree({ kept, parents }: FrameTree): Uint8Array {
  const out = new Uint8Array(4 + 2 * (kept.length + parents.length))
  const view = new DataView(out.buffer)
  const numbers = [kept.length, ...kept, parents.length, ...parents]
  for (const [at, number] of numbers.entries()) view.setInt16(2 * at, number, true)
  return out
}

/** @param n rows of the frame */
function decodeTree(body: Uint8Array, n: number): { tree: FrameTree; rest: Uint8Array } {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength)
  let at = 0
  const list = (): number[] => {
    const count = at + 2 <= body.byteLength ? view.getUint16(at, true) : 0
    const end = at + 2 + 2 * count
    if (end > body.byteLength) throw invalid('truncated tree')
    const numbers = Array.from({ length: count }, (_, i) => view.getInt16(at + 2 + 2 * i, true))
    at = end
    return numbers
  }
  const kept = list()
  const parents = list()
  if (kept.some((row, i) => row <= (kept[i - 1] ?? -1))) throw invalid('the accepted rows of the tree are not ascending')
  if (parents.length > 0 && parents.length !== n) throw invalid(`a tree of ${parents.length} rows in a frame of ${n}`)
  if (parents.some((parent, row) => parent < -1 || parent >= row)) throw invalid('a row of the tree precedes its parent')
  return { tree: { kept, parents }, rest: body.subarray(at) }
}

/** Number of rows that a padded frame has room for; its reply has as much. Undefined: not padded. */
export function paddedRowsOf(frame: Frame, width: number, coder?: RowCoder | undefined): number | undefined {
  const wire = wireOf(frame, coder)
  if ((frame.flags & flagPadded) === 0 || !wire) return undefined
  const { byteLength } = frame.payload
  return wire === 'fp16c' ? codedRows(coder!, byteLength) : Math.floor(byteLength / rowBytes(wire, width))
}

/** Whether its rows are coded. @param bytes of a frame, or its fields */
export const isCoded = (frame: Uint8Array | Pick<Frame, 'dtype'>): boolean =>
  ('dtype' in frame ? frame.dtype : frame[2]) === dtypes.fp16c

/** Header fields for replying to a frame that `decodeFrame` rejects; session 0 if the header is truncated. */
export function peekFrame(bytes: Uint8Array): Pick<FrameHeader, 'session' | 'epoch' | 'seq'> {
  if (bytes.byteLength < headerBytes) return { session: 0n, epoch: 0, seq: 0 }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return { epoch: view.getUint32(4, true), session: view.getBigUint64(8, true), seq: view.getUint32(16, true) }
}

const bytesOf = (array: Uint16Array | Float32Array | Int8Array) =>
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength)

const invalid = (why: string) => new BrimError('FRAME_INVALID', `malformed frame: ${why}`)
