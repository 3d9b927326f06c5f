import { once } from 'node:events'
import { WebSocket } from 'ws'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { decodeFault } from '../../../core/wire/protocol/fault.ts'
import { decodeFrame, encodeFrame, type Frame } from '../../../core/wire/protocol/frame.ts'
import { sessionBits, type ToBridge, ToDevice } from '../../../core/wire/protocol/messages.ts'
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

type Session = Awaited<ReturnType<Awaited<ReturnType<typeof connectClient>>['open']>>

/** A client of the data plane that computes nothing. */
async function connectClient(dataUrl: string, width: number, signal: AbortSignal) {
  const socket = new WebSocket(dataUrl, { perMessageDeflate: false })
  const pending = new Map<string, (reply: Frame | ToDevice) => void>()
  const closed = once(socket, 'close', { signal }).then(() => {
    throw new BrimError('LINK_LOST', 'the bridge closed the connection of the benchmark')
  })
  closed.catch(() => {})
  const settle = (key: string, reply: Frame | ToDevice) => {
    pending.get(key)?.(reply)
    pending.delete(key)
  }
  socket.on('error', () => {})
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) {
      const frame = decodeFrame(new Uint8Array(data))
      settle(`${frame.session} ${frame.seq}`, frame)
    } else {
      const message = ToDevice.parse(JSON.parse(data.toString()))
      if ('request' in message) settle(`open ${message.request}`, message)
    }
  })
  const textOf = (message: ToBridge) => JSON.stringify(message)
  /** Sends data; resolves with the reply that has this key. */
  const ask = (key: string, data: string | Uint8Array): Promise<Frame | ToDevice> => {
    const reply = new Promise<Frame | ToDevice>((resolve) => pending.set(key, resolve))
    socket.send(data)
    return Promise.race([reply, closed])
  }
  await Promise.race([once(socket, 'open', { signal }), closed])
  socket.send(textOf({ type: 'hello', v: 1, device: 'batch', birth: 1 }))
  let requests = 0
  return {
    async open(modelId: string) {
      requests += 1
      const opened = await ask(`open ${requests}`, textOf({ type: 'open', request: requests, modelId }))
      if (opened.type !== 'opened') throw new BrimError('SESSION_REFUSED', 'the bridge refused a session of the benchmark')
      const session = sessionBits(opened.session)
      let base = 0
      let seq = 0
      return {
        /** Sends `rows` rows; resolves when the deep state of the last one has arrived. */
        async send(rows: number): Promise<void> {
          seq += 1
          const fields = { type: 'rows', session, epoch: opened.epoch, seq, base, want: 1 } as const
          // Ones in fp16; the time of a step does not depend on values.
          const states = { rows, width, half: new Uint16Array(rows * width).fill(0x3c00) }
          const reply = await ask(`${session} ${seq}`, encodeFrame(fields, states))
          if (reply.type !== 'deep') throw failure(reply)
          base += rows
        },
      }
    },
    close: () => socket.terminate(),
  }
}

function failure(reply: Frame | ToDevice): BrimError {
  if (reply.type !== 'fault') return new BrimError('LINK_LOST', `unexpected "${reply.type}" from the bridge`)
  const { code, message } = decodeFault(reply)
  return new BrimError('LINK_LOST', `the bridge closed a session of the benchmark: ${message} [${code}]`)
}
