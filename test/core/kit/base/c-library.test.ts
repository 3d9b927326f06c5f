import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { checkCLibrary } from '../../../../core/commands/doctor-c-library.ts'
import { canLoad, jetPacksFor, neededByAll, runningGlibc } from '../../../../core/kit/base/c-library.ts'
import { compareSymbolVersions, readBinaryNeeds } from '../../../../core/kit/base/elf.ts'

const folder = new URL('../../../../node_modules/onnxruntime-node/bin/napi-v6/', import.meta.url)
const runtime = fileURLToPath(new URL(`${process.platform}/${process.arch}/libonnxruntime.so.1`, folder))

describe('the C library that binaries need', () => {
  it('orders versions by their numbers', () => {
    expect(['2.28', '2.4', '3.0', '2.4.1'].sort(compareSymbolVersions)).toEqual(['2.4', '2.4.1', '2.28', '3.0'])
  })

  it.each([
    [{ glibc: '2.17' }, ['4', '5', '6', '7']],
    [{ glibc: '2.28', glibcxx: '3.4.22' }, ['5', '6', '7']],
    [{ glibc: '2.28', glibcxx: '3.4.29' }, ['6', '7']],
    [{ glibc: '2.36' }, ['7']],
    [{ glibc: '2.40' }, []],
    [{}, ['4', '5', '6', '7']],
  ])('%j runs on JetPack %j', (needs, jetPacks) => {
    expect(jetPacksFor(needs)).toEqual(jetPacks)
  })

  it('of several binaries is the highest of each library', () => {
    const needs = neededByAll([{ glibc: '2.4', glibcxx: '3.4.9' }, { glibc: '2.28' }, { glibcxx: '3.4.22' }, {}])
    expect(needs).toEqual({ glibc: '2.28', glibcxx: '3.4.22' })
    expect(canLoad(needs, { glibc: '2.27' })).toBe(false)
    expect(canLoad(needs, { glibc: '2.28' })).toBe(true)
  })

  it('is nothing for a file that is no binary', () => {
    expect(readBinaryNeeds(fileURLToPath(import.meta.url))).toBeUndefined()
  })

  describe.skipIf(process.platform !== 'linux')('on Linux', () => {
    it('is read from the running Node, which runs on this system', () => {
      const needs = readBinaryNeeds(process.execPath)!
      expect(needs).toEqual({ arch: process.arch, glibc: expect.stringMatching(/^2\.\d+$/), glibcxx: expect.any(String) })
      expect(canLoad(needs, { glibc: runningGlibc()! })).toBe(true)
    })

    // The figure of docs/packages.md. A release of ONNX Runtime that needs more fails here.
    it("is that of JetPack 5 and later for ONNX Runtime's library", () => {
      const needs = readBinaryNeeds(runtime)!
      expect(needs).toEqual({ arch: process.arch, glibc: '2.28', glibcxx: '3.4.22' })
      expect(jetPacksFor(needs)).toEqual(['5', '6', '7'])
    })

    it('fails the check of brim doctor where the system has less, and names ORT_LIB', () => {
      expect(checkCLibrary(undefined, '2.28', [runtime])).toMatchObject([{ status: 'ok', values: { needed: '2.28' } }])
      expect(checkCLibrary(undefined, '2.27', [runtime])).toMatchObject([
        {
          status: 'fail',
          detail: 'glibc 2.27, that of JetPack 4; libonnxruntime.so.1 needs 2.28',
          hint: expect.stringContaining('ORT_LIB'),
        },
      ])
      expect(checkCLibrary(undefined, '2.27', [process.execPath])).toMatchObject([
        { hint: expect.not.stringContaining('ORT_LIB') },
      ])
      expect(checkCLibrary(undefined)).toMatchObject([{ name: 'c library', status: 'ok' }])
    })
  })
})
