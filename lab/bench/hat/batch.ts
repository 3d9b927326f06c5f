import { once } from 'node:events'
import { WebSocket } from 'ws'
import { BrimError } from '../../../core/base/errors.ts'
import { decodeFault } from '../../../core/protocol/fault.ts'
import { decodeFrame, encodeFrame, type Frame } from '../../../core/protocol/frame.ts'
import { sessionBits, type ToBridge, ToDevice } from '../../../core/protocol/messages.ts'
import type { States } from '../../../core/protocol/states.ts'
import type { HatCluster } from './cluster.ts'

/** Sessions with as many positions before, each decoding so many tokens a turn. */
const batch = { sessions: 16, context: 256, tokens: 8, turns: 8, warmUp: 1 } as const

/** Of the tokens of all sessions in one turn, ms. */
export interface BatchTimes {
  /** All sessions decode at the same time. */
  readonly togetherMs: readonly number[]
  /** One after the other, each alone. */
  readonly inTurnMs: readonly number[]
}

/**
 * How much a bridge gains by computing many sessions' tokens in one step: the same tokens by sessions that decode at the
 * same time and by one session after another. Straight to the bridge, without links and devices, whose time is not meant.
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
  /** So many rows, the last of which comes back; resolves when it has. */
  send(rows: number): Promise<void>
}

/** A device on the wire that computes nothing. */
async function connectClient(dataUrl: string, width: number, signal: AbortSignal) {
  const socket = new WebSocket(dataUrl, { perMessageDeflate: false })
  /** By request, and by session and seq: who waits for the answer. */
  const opening = new Map<number, (answer: ToDevice) => void>()
  const waiting = new Map<string, (answer: Frame) => void>()
  const broken = once(socket, 'close', { signal }).then(() => {
    throw new BrimError('LINK_LOST', 'the bridge has ended the connection of the benchmark')
  })
  broken.catch(() => {})
  const answerOf = <T>(expect: (resolve: (value: T) => void) => void) => Promise.race([new Promise<T>(expect), broken])
  socket.on('error', () => {})
  socket.on('message', (data: Buffer, isBinary) => {
    if (isBinary) {
      const frame = decodeFrame(new Uint8Array(data))
      const key = `${frame.session} ${frame.seq}`
      waiting.get(key)?.(frame)
      waiting.delete(key)
    } else {
      const message = ToDevice.parse(JSON.parse(data.toString()))
      if ('request' in message) opening.get(message.request)?.(message)
    }
  })
  const say = (message: ToBridge) => socket.send(JSON.stringify(message))
  await Promise.race([once(socket, 'open', { signal }), broken])
  say({ type: 'hello', v: 1, device: 'batch', birth: 1 })
  let requests = 0
  return {
    async open(modelId: string): Promise<Session> {
      requests += 1
      const request = requests
      const opened = await answerOf<ToDevice>((resolve) => {
        opening.set(request, resolve)
        say({ type: 'open', request, modelId })
      })
      if (opened.type !== 'opened') throw new BrimError('SESSION_REFUSED', 'the bridge gives the benchmark no session')
      const session = sessionBits(opened.session)
      let base = 0
      let seq = 0
      return {
        async send(rows) {
          seq += 1
          const fields = { type: 'rows', session, epoch: opened.epoch, seq, base, want: 1 } as const
          const answer = await answerOf<Frame>((resolve) => {
            waiting.set(`${session} ${seq}`, resolve)
            socket.send(encodeFrame(fields, rowsOf(rows, width)))
          })
          if (answer.type !== 'deep') throw refused(answer)
          base += rows
        },
      }
    },
    close: () => socket.terminate(),
  }
}

function refused(answer: Frame): BrimError {
  if (answer.type !== 'fault') return new BrimError('LINK_LOST', `the bridge answered the benchmark by "${answer.type}"`)
  const { code, message } = decodeFault(answer)
  return new BrimError('LINK_LOST', `the bridge ended a session of the benchmark: ${message} [${code}]`)
}

/** Ones in fp16: times do not depend on values. */
function rowsOf(rows: number, width: number): States {
  return { rows, width, half: new Uint16Array(rows * width).fill(0x3c00) }
}
