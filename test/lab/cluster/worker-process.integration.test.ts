import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { WorkerProcess } from '../../../lab/cluster/worker-process.ts'
import { captureIo } from '../../support/captured-io.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

interface Request {
  readonly kind: 'double' | 'throw' | 'die' | 'hang'
  readonly value?: number
}

let dir: TempDir
let script: URL
beforeAll(() => {
  dir = tempDir()
  const file = join(dir.path, 'worker.mjs')
  const module = new URL('dist/lab/cluster/worker-process.js', projectRoot)
  const answers = `{
    double: () => 2 * value,
    throw: () => { throw new Error('no figures') },
    die: () => process.exit(3),
    hang: () => new Promise(() => {}),
  }`
  writeFileSync(file, `import { serveRequests } from '${module}'\nserveRequests(({ kind, value }) => (${answers})[kind]())\n`)
  script = pathToFileURL(file)
})
afterAll(() => dir[Symbol.dispose]())

const start = (signal = new AbortController().signal) =>
  new WorkerProcess<Request, number>(script, captureIo({ env: { PATH: '' }, signal }).io)

describe('a worker process', () => {
  it('answers one request after the other', async () => {
    await using worker = start()
    expect(await worker.ask({ kind: 'double', value: 4 })).toBe(8)
    expect(await worker.ask({ kind: 'double', value: 5 })).toBe(10)
  })

  it.each([
    ['throws', { kind: 'throw' }, 'failed: Error: no figures'],
    ['dies', { kind: 'die' }, 'ended early (3)'],
    ['hangs', { kind: 'hang' }, 'did not reply within 0.5 s'],
  ] as const)('that %s says so, and takes no other request', async (_, request, message) => {
    await using worker = start()
    expect(await worker.ask({ kind: 'double', value: 1 })).toBe(2)
    const error = { code: 'RUNTIME_FAILED', message: expect.stringContaining(message) }
    await expect(worker.ask(request, 500)).rejects.toMatchObject(error)
    await expect(worker.ask({ kind: 'double', value: 1 }, 500)).rejects.toMatchObject({ code: 'RUNTIME_FAILED' })
  })

  it('ends with the command that it works for', async () => {
    const stop = new AbortController()
    await using worker = start(stop.signal)
    const asked = worker.ask({ kind: 'hang' })
    stop.abort(new Error('interrupted'))
    await expect(asked).rejects.toThrow('interrupted')
  })
})
