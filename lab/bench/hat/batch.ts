import { once } from 'node:events'
import { WebSocket } from 'ws'
import { BrimError } from '../../../core/base/errors.ts'
import { decodeFault } from '../../../core/protocol/fault.ts'
import { decodeFrame, encodeFrame, type Frame } from '../../../core/protocol/frame.ts'
import { sessionBits, type ToBridge, ToDevice } from '../../../core/protocol/messages.ts'
import type { States } from '../../../core/protocol/states.ts'
import type { HatCluster } from './cluster.ts'

/** Sessions, positions of context of each, tokens that each decodes per turn, turns. */
const batch = { sessions: 16, context: 256, tokens: 8, turns: 8, warmUp: 1 } as const

/** Time of one turn, the tokens of all sessions, in ms. */
export interface BatchTimes {
  /** All sessions decode at the same time. */
  readonly togetherMs: readonly number[]
  /** Sessions decode one after the other. */
  readonly inTurnMs: readonly number[]
}

/**
 * Measures what a bridge gains by packing many sessions' tokens into one step: sessions decode the same tokens at the same
 * time and one after the other. The client connects to the bridge itself, so links and devices take no time.
 */
export async function timeBatch(cluster: HatCluster, modelId: string, width: number, signal: AbortSignal): Promise<BatchTimes> {
  const times = { togetherMs: [] as number[], inTurnMs: [] as number[] }
  const client = await connectClient(cluster.dataUrl, width, signal)
  try {
    const sessions = await Promise.all(Array.from({ length: batch.sessions }, () => client.open(modelId)))
    await Promise.all(sessions.map((session) => session.send(batch.context)))
    const decode = async (session: Session) => {
      for (let token = 0; token < batch.tokens; token++) await session.send(1)
    }
    for (let turn = 0; turn < batch.warmUp + batch.turns; turn++) {
      signal.throwIfAborted()
      const startedMs = performance.now()
      await Promise.all(sessions.map(decode))
      const togetherMs = performance.now()
      for (const session of sessions) await decode(session)
      const endedMs = performance.now()
      if (turn < batch.warmUp) continue
      times.togetherMs.push(togetherMs - startedMs)
      times.inTurnMs.push(endedMs - togetherMs)
    }
    return times
  } finally {
    client.close()
  }
}

interface Session {
  /** Sends `rows` rows; resolves when the deep state of the last one has arrived. */
  send(rows: number): Promise<void>
}

/** A client of the data plane that computes nothing. */
async function connectClient(dataUrl: string, width: number, signal: AbortSignal) {
  const socket = new WebSocket(dataUrl, { perMessageDeflate: false })
  /** Callbacks by request, and by session and seq. */
  const opening = new Map<number, (message: ToDevice) => void>()
  const pending = new Map<string, (frame: Frame) => void>()
  const closed = once(socket, 'close', { signal }).then(() => {
    throw new BrimError('LINK_LOST', 'the bridge closed the connection of the benchmark')
  })
  closed.catch(() => {})
  const replyOf = <T>(expect: (resolve: (value: T) => void) => void) => Promise.race([new Promise<T>(expect), closed])
  socket.on('error', () => {})
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) {
      const frame = decodeFrame(new Uint8Array(data))
      const key = `${frame.session} ${frame.seq}`
      pending.get(key)?.(frame)
      pending.delete(key)
    } else {
      const message = ToDevice.parse(JSON.parse(data.toString()))
      if ('request' in message) opening.get(message.request)?.(message)
    }
  })
  const send = (message: ToBridge) => socket.send(JSON.stringify(message))
  await Promise.race([once(socket, 'open', { signal }), closed])
  send({ type: 'hello', v: 1, device: 'batch', birth: 1 })
  let requests = 0
  return {
    async open(modelId: string): Promise<Session> {
      requests += 1
      const request = requests
      const opened = await replyOf<ToDevice>((resolve) => {
        opening.set(request, resolve)
        send({ type: 'open', request, modelId })
      })
      if (opened.type !== 'opened') throw new BrimError('SESSION_REFUSED', 'the bridge refused a session of the benchmark')
      const session = sessionBits(opened.session)
      let base = 0
      let seq = 0
      return {
        async send(rows) {
          seq += 1
          const fields = { type: 'rows', session, epoch: opened.epoch, seq, base, want: 1 } as const
          const reply = await replyOf<Frame>((resolve) => {
            pending.set(`${session} ${seq}`, resolve)
            socket.send(encodeFrame(fields, rowsOf(rows, width)))
          })
          if (reply.type !== 'deep') throw failure(reply)
          base += rows
        },
      }
    },
    close: () => socket.terminate(),
  }
}

function failure(reply: Frame): BrimError {
  if (reply.type !== 'fault') return new BrimError('LINK_LOST', `unexpected frame "${reply.type}" from the bridge`)
  const { code, message } = decodeFault(reply)
  return new BrimError('LINK_LOST', `the bridge closed a session of the benchmark: ${message} [${code}]`)
}

/** Ones in fp16; the time of a step does not depend on values. */
function rowsOf(rows: number, width: number): States {
  return { rows, width, half: new Uint16Array(rows * width).fill(0x3c00) }
}
