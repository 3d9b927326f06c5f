import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { encodeFrame, headerBytes, maxFrameBytes, rowBytes } from '../../core/wire/protocol/frame.ts'
import { sessionBits, ToDevice } from '../../core/wire/protocol/messages.ts'
import { type AttackTarget, type Flood, repeatAttack } from './flood.ts'

const pauseMs = 2
/** Repetitions of one frame. */
const repeats = 100

interface Counts {
  sessions: number
  refused: number
  frames: number
  faults: number
}

/**
 * Fills the memory of the data plane: opens sessions until the bridge refuses, each with a prompt whose deep states all
 * come back, repeats its frames, and pads one as far as frames go. It reconnects when it is disconnected.
 * @param width values of a hidden state; absent: as the bridge's manifest says
 */
export const hiddenStatesFlood = ({ width }: { readonly width?: number } = {}): Flood => ({
  name: 'hidden-states',
  async run(target, signal) {
    const counts: Counts = { sessions: 0, refused: 0, frames: 0, faults: 0 }
    const connect = () => {
      const stop = new AbortController()
      return attack(target, width, counts, stop, signal).finally(() => stop.abort())
    }
    const { connections: disconnects } = await repeatAttack(connect, signal, pauseMs)
    return { ...counts, disconnects }
  },
})

/** @param stop ends this connection. @param ended the flood has ended */
async function attack(
  target: AttackTarget,
  givenWidth: number | undefined,
  counts: Counts,
  stop: AbortController,
  ended: AbortSignal,
) {
  const { dataUrl, device } = target
  const signal = AbortSignal.any([ended, stop.signal])
  const headers = device ? { authorization: `Bearer ${device.token}` } : {}
  const socket = new WebSocket(dataUrl, { headers, perMessageDeflate: false, rejectUnauthorized: false })
  signal.addEventListener('abort', () => socket.terminate(), { once: true })
  socket.on('error', () => stop.abort())
  socket.on('close', () => stop.abort())
  const replies: ToDevice[] = []
  socket.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) replies.push(ToDevice.parse(JSON.parse(data.toString())))
    // The type byte of a frame; 4 is a fault.
    else if (data[1] === 4) counts.faults += 1
  })
  await once(socket, 'open', { signal })
  const send = async (data: string | Uint8Array) => {
    signal.throwIfAborted()
    counts.frames += 1
    await new Promise<void>((sent) => socket.send(data, () => sent()))
  }
  async function reply<Type extends ToDevice['type']>(...types: Type[]): Promise<Extract<ToDevice, { type: Type }>> {
    for (;;) {
      const at = replies.findIndex(({ type }) => types.some((one) => one === type))
      if (at >= 0) return replies.splice(at, 1)[0] as Extract<ToDevice, { type: Type }>
      await sleep(pauseMs, undefined, { signal })
    }
  }
  await send(JSON.stringify({ type: 'hello', v: 1, device: device?.id ?? 'attacker', birth: 1 }))
  const { modelId } = await reply('welcome')
  const width = givenWidth ?? (await widthOf(target, modelId))
  for (let request = 1; ; request++) {
    await send(JSON.stringify({ type: 'open', request, modelId }))
    const opened = await reply('opened', 'refused')
    if (opened.type === 'refused') {
      counts.refused += 1
      await sleep(opened.retryAfterMs ?? 100, undefined, { signal })
      continue
    }
    counts.sessions += 1
    const { frameTokens, epoch } = opened
    const header = { type: 'rows', session: sessionBits(opened.session), epoch } as const
    const rows = (n: number) => ({ rows: n, width, half: new Uint16Array(n * width) })
    await send(encodeFrame({ ...header, seq: 1, base: 0, want: frameTokens }, rows(frameTokens)))
    for (let repeat = 0; repeat < repeats; repeat++) await send(encodeFrame({ ...header, seq: 1, want: 0 }, rows(0)))
    if (request % 4 > 0) continue
    const paddedRows = Math.floor((maxFrameBytes - headerBytes) / rowBytes('fp16', width)) >> (request % 8)
    await send(encodeFrame({ ...header, seq: 2, base: 0, want: 1 }, rows(1), { paddedRows }))
  }
}

async function widthOf({ httpUrl, device }: AttackTarget, modelId: string): Promise<number> {
  const headers = device ? { authorization: `Bearer ${device.token}` } : {}
  const response = await fetch(`${httpUrl}/v1/bundles/${modelId}/manifest.json`, { headers })
  const { dims } = (await response.json()) as { dims: { hidden: number } }
  return dims.hidden
}
