import { createHash } from 'node:crypto'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { startAgent } from '../../agent/agent.ts'
import { manifestFile } from '../../core/model/bundle/manifest.ts'
import { buildTextBundle } from '../support/agent-world.ts'
import { startTestBridge } from '../support/bridge.ts'
import { shared } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = shared(tempDir)
let bundle: string

beforeAll(async () => {
  bundle = await buildTextBundle(dir.path)
})

interface Opened {
  close(): Promise<void>
}

/** With one state folder for all starts, as after an update of the machine. */
const sides: { side: string; part: string; start: (bundle: string, state: string) => Promise<Opened> }[] = [
  {
    side: 'agent',
    part: 'input',
    start: (from, state) =>
      startAgent({
        bundle: from,
        id: 'jetson-01',
        stateDir: join(dir.path, state),
        bridges: ['mqtt://127.0.0.1:1'],
        apiPort: 0,
        threads: 1,
        logLevel: 'silent',
      }),
  },
  {
    side: 'bridge',
    part: 'middle',
    start: (from, state) => startTestBridge({ bundle: from, stateDir: join(dir.path, state), mqttPort: 0 }),
  },
]

describe.each(sides)('a corrupt bundle at the $side', ({ side, part, start }) => {
  async function copy(name: string): Promise<string> {
    const to = join(dir.path, `${side}-${name}`)
    await cp(bundle, to, { recursive: true })
    return to
  }

  async function flipByte(path: string): Promise<void> {
    const content = await readFile(path)
    content[content.length >> 1]! ^= 1
    await writeFile(path, content)
  }

  it('is refused by the name of the changed file, also after a start with the intact one', async () => {
    const folder = await copy('flipped')
    const opened = await start(folder, `${side}-state`)
    await opened.close()
    const weights = join(folder, `${part}.weights`)
    await flipByte(weights)
    await expect(start(folder, `${side}-state`)).rejects.toMatchObject({
      code: 'BUNDLE_CORRUPT',
      message: expect.stringContaining(weights),
    })
  })

  it('is refused where its files are as listed but compute other results than where it was built', async () => {
    const folder = await copy('other-results')
    const golden = join(folder, `${part}.golden.json`)
    const vector = JSON.parse(await readFile(golden, 'utf8')) as { expected: { values: string } }
    const values = Buffer.from(vector.expected.values, 'base64')
    for (let at = 0; at < values.length; at += 4) values.writeFloatLE(values.readFloatLE(at) + 1, at)
    vector.expected.values = values.toString('base64')
    await writeFile(golden, JSON.stringify(vector))
    await list(folder, `${part}.golden.json`)
    await expect(start(folder, `${side}-other`)).rejects.toMatchObject({
      code: 'BUNDLE_CORRUPT',
      message: expect.stringContaining(`self-test of part ${part} failed`),
    })
  })
})

/** Lists the file in the manifest as it is now. */
async function list(folder: string, file: string): Promise<void> {
  const path = join(folder, manifestFile)
  const manifest = JSON.parse(await readFile(path, 'utf8')) as { files: { path: string; bytes: number; sha256: string }[] }
  const content = await readFile(join(folder, file))
  const entry = manifest.files.find((candidate) => candidate.path === file)!
  Object.assign(entry, { bytes: content.byteLength, sha256: createHash('sha256').update(content).digest('hex') })
  await writeFile(path, JSON.stringify(manifest))
}
