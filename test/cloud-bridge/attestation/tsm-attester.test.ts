import fs from 'node:fs/promises'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { sevSnpVerifier } from '../../../agent/attestation/sev-snp.ts'
import { readCertificates } from '../../../cloud-bridge/attestation/certificate-table.ts'
import { TsmAttester, type TsmFiles } from '../../../cloud-bridge/attestation/tsm-attester.ts'
import { fresh } from '../../support/shared.ts'
import { snpMachine, testPolicy } from '../../support/snp-machine.ts'
import { tempDir } from '../../support/temp-dir.ts'

const machine = snpMachine()
const data = Buffer.alloc(64, 7)
const { signal } = new AbortController()
const dir = fresh(tempDir)

/** As a host gives them: GUID, offset and length of each, then the contents. */
function tableOf(contents: readonly Buffer[]): Buffer {
  let at = 24 * (contents.length + 1)
  const entries = contents.map((content, index) => {
    const entry = Buffer.alloc(24, index + 1)
    entry.writeUInt32LE(at, 16)
    entry.writeUInt32LE(content.length, 20)
    at += content.length
    return entry
  })
  return Buffer.concat([...entries, Buffer.alloc(24), ...contents])
}

/** The kernel's part, on real files: it makes those of a request with its folder, and removes them with it. */
function kernel({ table = tableOf(machine.certificates), provider = 'sev_guest', interferes = false } = {}): TsmFiles {
  const write = (path: string, content: Buffer | string) => fs.writeFile(path, content)
  return {
    async mkdir(path) {
      await fs.mkdir(path)
      await write(join(path, 'generation'), '0\n')
      await write(join(path, 'provider'), `${provider}\n`)
    },
    async writeFile(path, content) {
      expect(basename(path)).toBe('inblob')
      const folder = join(path, '..')
      const generation = Number(await fs.readFile(join(folder, 'generation'), 'utf8')) + (interferes ? 2 : 1)
      await write(join(folder, 'generation'), `${generation}\n`)
      await write(join(folder, 'outblob'), machine.report(content))
      if (table.length > 0) await write(join(folder, 'auxblob'), table)
    },
    readFile: (path) => fs.readFile(path),
    rmdir: (path) => fs.rm(path, { recursive: true }),
  }
}

const verify = async (attester: TsmAttester) =>
  sevSnpVerifier(machine.roots).verify(await attester.evidenceOf(data, signal), { data, policy: testPolicy(), nowMs: undefined })

describe('a bridge in a virtual machine of SEV-SNP', () => {
  it('has evidence of the kernel that a device accepts, and leaves no request behind', async () => {
    const attester = new TsmAttester([], dir.path, kernel())
    expect((await verify(attester)).kind).toBe('accepted')
    expect(await fs.readdir(dir.path)).toEqual([])
  })

  it('takes certificates of a file where the host gives none, and ignores what is no certificate', async () => {
    const file = join(dir.path, 'certificates.pem')
    const lines = (der: Buffer) => der.toString('base64').replace(/(.{64})/g, '$1\n')
    await fs.writeFile(
      file,
      machine.certificates.map((der) => `-----BEGIN CERTIFICATE-----\n${lines(der)}\n-----END CERTIFICATE-----\n`).join(''),
    )
    for (const table of [
      Buffer.alloc(0),
      tableOf([Buffer.from('a revocation list')]),
      Buffer.alloc(4_096),
      Buffer.alloc(100, 0xff),
    ])
      expect((await verify(new TsmAttester(readCertificates(file), dir.path, kernel({ table })))).kind).toBe('accepted')
    await fs.writeFile(file, 'no certificates')
    expect(() => readCertificates(file)).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }))
    expect(() => readCertificates(join(dir.path, 'absent'))).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }))
  })

  it('asks for one report at a time, and for none that a device waits for no longer', async () => {
    const counted = kernel()
    let open = 0
    let most = 0
    let asked = 0
    const files: TsmFiles = {
      ...counted,
      async mkdir(path) {
        asked += 1
        open += 1
        most = Math.max(most, open)
        await counted.mkdir(path)
      },
      async rmdir(path) {
        await counted.rmdir(path)
        open -= 1
      },
    }
    const attester = new TsmAttester([], dir.path, files)
    const all = [1, 2, 3].map(() => attester.evidenceOf(data, signal))
    await expect(attester.evidenceOf(data, AbortSignal.abort())).rejects.toThrow()
    await Promise.all(all)
    expect({ most, asked }).toEqual({ most: 1, asked: 3 })
  })

  it('fails where another program changes its request, and removes it all the same', async () => {
    const attester = new TsmAttester([], dir.path, kernel({ interferes: true }))
    await expect(attester.evidenceOf(data, signal)).rejects.toThrow('another program')
    expect(await fs.readdir(dir.path)).toEqual([])
    // A later request is not affected by a failed one.
    await expect(attester.evidenceOf(data, signal)).rejects.toThrow('another program')
  })
})

it('evidence of another technology is named as such', async () => {
  const attester = new TsmAttester([], dir.path, kernel({ provider: 'tdx_guest' }))
  expect((await attester.evidenceOf(data, signal)).kind).toBe('tdx')
})

it('a kernel without the interface makes no reports', () => {
  expect(TsmAttester.isPresent(join(dir.path, 'absent'))).toBe(false)
  expect(TsmAttester.isPresent(dir.path)).toBe(true)
})
