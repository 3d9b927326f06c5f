import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { startService } from '../../../../core/kit/service/service.ts'
import { bundledLibrary, loadLibrary } from '../../../../core/model/engine/capi-library.ts'
import { receiveDatagrams } from '../../../support/datagram-receiver.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { recordingLogger } from '../../../support/recording-logger.ts'
import { tempDir } from '../../../support/temp-dir.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

function folder(): string {
  const temp = tempDir()
  cleanups.push(() => temp[Symbol.dispose]())
  return temp.path
}

async function start(env: Record<string, string>, socket: string) {
  const receiver = receiveDatagrams(socket)
  cleanups.push(() => receiver.close())
  const clock = fakeClock()
  const { logger, lines } = recordingLogger('warn')
  let stalled: string[] = []
  const stall = (...names: string[]) => {
    stalled = names
  }
  const service = await startService({
    env: { NOTIFY_SOCKET: socket, ...env },
    stalled: () => stalled,
    status: () => 'ready, 2 answers in progress',
    clock,
    logger,
  })
  cleanups.push(() => service.close())
  return { clock, lines, service, received: receiver.received, stall }
}

const status = 'STATUS=ready, 2 answers in progress'

describe('a service manager', () => {
  it('learns that the process is ready, and feeds the watchdog at half its interval while all loops make progress', async () => {
    const socket = join(folder(), 'notify')
    const { clock, lines, service, received, stall } = await start({ WATCHDOG_USEC: '60000000' }, socket)
    expect(received()).toEqual([`READY=1\n${status}\nWATCHDOG=1`])
    await clock.advance(29_000)
    expect(received()).toEqual([])
    await clock.advance(1_000)
    expect(received()).toEqual([`READY=1\n${status}\nWATCHDOG=1`])

    stall('inference')
    await clock.advance(60_000)
    const unfed = received()
    expect(unfed.length).toBeGreaterThan(0)
    expect(unfed.every((text) => text === `READY=1\n${status}`)).toBe(true)
    expect(lines.filter(({ msg }) => msg === 'no progress: the watchdog is not fed')).toMatchObject([{ stalled: ['inference'] }])
    stall()
    await clock.advance(5_000)
    expect(received()).toEqual([`READY=1\n${status}\nWATCHDOG=1`])

    service.stopping()
    expect(received()).toEqual([`STOPPING=1\n${status}`])
  })

  it('may be the first to call the C library: ONNX Runtime can still be loaded', async () => {
    const { lines } = await start({}, join(folder(), 'notify'))
    expect(lines).toEqual([])
    expect(loadLibrary(bundledLibrary()).version).toMatch(/^1\./)
  })

  it('may have an abstract socket, and no watchdog for this process', async () => {
    const { clock, received } = await start({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '1' }, `@brim-test-${process.pid}`)
    expect(received()).toEqual([`READY=1\n${status}`])
    await clock.advance(60_000)
    expect(received()).toEqual([])
  })

  it('that is gone is a warning, not a failure', async () => {
    const { logger, lines } = recordingLogger('warn')
    const options = { stalled: () => [], status: () => '', clock: fakeClock(), logger }
    const service = await startService({ env: { NOTIFY_SOCKET: join(folder(), 'nobody') }, ...options })
    await service.close()
    expect(lines).toMatchObject([{ msg: 'service manager not notified' }])
  })
})
