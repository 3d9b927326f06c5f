import { connect, createServer, type Socket } from 'node:net'
import type { Random } from '../../core/kit/base/random.ts'
import { type DirectionShape, LinkSchedule } from './link-schedule.ts'
import { onLoopback } from './loopback-server.ts'

export interface LinkShape {
  readonly up: DirectionShape
  readonly down: DirectionShape
}

/** A device's link: a TCP relay on a free loopback port that delays bytes according to its shape. */
export interface ShapedLink extends AsyncDisposable {
  readonly port: number
  /** Time in its rate traces. */
  nowMs(): number
  /** Moves an idle link to another time of its traces. */
  startOver(atMs: number): void
  /** What has passed since it started over, in the order in which it came out. */
  readonly passages: readonly Passage[]
}

/** Bytes that entered together. */
export interface Passage {
  readonly direction: 'up' | 'down'
  readonly bytes: number
  /** From the first byte's entry to the last one's exit. */
  readonly tookMs: number
}

export interface ShapedLinkOptions {
  /** Loopback port of the far end. */
  readonly target: number
  readonly shape: LinkShape
  readonly random: Random
}

/** About the payload of a packet; a larger piece would be late as a whole. */
const pieceBytes = 1_460
/** With a longer backlog than this the link stops reading, so that the sender notices it. */
const queueMs = 200
/** Timers have a resolution of 1 ms; a piece that is due this soon is on time. */
const graceMs = 0.5

interface Piece {
  /** On the process's clock, because the link's own may start over. */
  readonly dueMs: number
  /** Undefined: the sender has ended. */
  readonly bytes: Buffer | undefined
  /** Of the last piece of what entered together. */
  readonly onLeft?: (() => void) | undefined
}

/** One direction of the link, on the process's clock. */
interface Lane {
  /** @returns when bytes that enter now come out */
  enter(bytes: number): number
  /** Bytes that entered together now come out. */
  leave(bytes: number, enteredMs: number): void
  backlogMs(): number
}

/** All connections share the link; `up` is away from the client that connects. */
export async function startShapedLink({ target, shape, random }: ShapedLinkOptions): Promise<ShapedLink> {
  let startedMs = performance.now()
  const nowMs = () => performance.now() - startedMs
  const fresh = () => ({ up: new LinkSchedule(shape.up, random), down: new LinkSchedule(shape.down, random) })
  let schedules = fresh()
  let passages: Passage[] = []
  const lane = (direction: Passage['direction']): Lane => ({
    enter: (bytes) => startedMs + schedules[direction].admit(bytes, nowMs()),
    leave: (bytes, enteredMs) => void passages.push({ direction, bytes, tookMs: performance.now() - enteredMs }),
    backlogMs: () => schedules[direction].backlogMs(nowMs()),
  })
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    const far = connect({ port: target, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
    carry(near, far, lane('up'))
    carry(far, near, lane('down'))
  })
  return {
    ...(await onLoopback(server)),
    nowMs,
    get passages() {
      return passages
    },
    startOver(atMs) {
      startedMs = performance.now() - atMs
      schedules = fresh()
      passages = []
    },
  }
}

/** One direction of one connection. */
function carry(from: Socket, to: Socket, lane: Lane): void {
  const queue: Piece[] = []
  let timer: NodeJS.Timeout | undefined
  let blocked = false

  function enter(bytes: Buffer): void {
    const enteredMs = performance.now()
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      const piece = bytes.subarray(at, at + pieceBytes)
      const isLast = at + pieceBytes >= bytes.length
      const onLeft = isLast ? () => lane.leave(bytes.length, enteredMs) : undefined
      queue.push({ dueMs: lane.enter(piece.length), bytes: piece, onLeft })
    }
    balance()
    wait()
  }

  function deliver(): void {
    timer = undefined
    while (queue.length > 0 && !blocked && queue[0]!.dueMs <= performance.now() + graceMs) {
      const { bytes, onLeft } = queue.shift()!
      if (bytes === undefined) to.end()
      else if (!to.write(bytes)) blocked = true
      onLeft?.()
    }
    balance()
    wait()
  }

  function wait(): void {
    if (blocked || timer) return
    const waitMs = queue[0] ? queue[0].dueMs - performance.now() : untilRead()
    if (waitMs !== undefined) timer = setTimeout(deliver, Math.max(0, Math.round(waitMs)))
  }

  /** While another connection keeps the link busy, nothing else would resume reading here. */
  const untilRead = () => (from.isPaused() ? lane.backlogMs() - queueMs : undefined)

  function balance(): void {
    if (blocked || lane.backlogMs() > queueMs) from.pause()
    else if (from.isPaused()) from.resume()
  }

  from.on('data', enter)
  from.on('end', () => {
    queue.push({ dueMs: lane.enter(0), bytes: undefined })
    wait()
  })
  to.on('drain', () => {
    blocked = false
    deliver()
  })
  // An error discards what is on its way; an orderly end lets it arrive.
  from.on('error', () => to.resetAndDestroy())
  to.on('close', () => {
    clearTimeout(timer)
    blocked = true
    if (!to.writableFinished) from.resetAndDestroy()
  })
}
