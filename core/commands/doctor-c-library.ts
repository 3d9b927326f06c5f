import { existsSync, readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, join } from 'node:path'
import { canLoad, jetPacks, jetPacksFor, neededByAll, runningGlibc } from '../kit/base/c-library.ts'
import { readBinaryNeeds } from '../kit/base/elf.ts'
import type { Check } from './doctor-checks.ts'

/** The packages with binaries that agent and bridge load. */
const packages = ['onnxruntime-node', 'better-sqlite3', 'bufferutil', `@koromix/koffi-linux-${process.arch}`]

/**
 * Compares the system's C library with what Brim's binaries need. A library that does not load names a symbol version at
 * best; this names the system that has it.
 * @param library ORT_LIB, in the place of the package's ONNX Runtime
 * @returns no check where the system has no GNU C library
 */
export function checkCLibrary(library: string | undefined, system = runningGlibc(), binaries = findBinaries(library)): Check[] {
  if (system === undefined) return []
  const read = binaries.flatMap((path) => {
    const needs = readBinaryNeeds(path)
    return needs?.arch === process.arch ? [{ path, needs }] : []
  })
  const all = neededByAll(read.map(({ needs }) => needs))
  const { glibc: needed = 'none' } = all
  const values = { glibc: system, needed, jetPacks: jetPacksFor(all) }
  const detail = `glibc ${system}; Brim's binaries need ${needed}`
  const tooNew = read.filter(({ needs }) => !canLoad(needs, { glibc: system }))
  if (tooNew.length === 0) return [{ name: 'c library', status: 'ok', detail, values }]
  const names = tooNew.map(({ path, needs }) => `${basename(path)} needs ${needs.glibc}`).join(', ')
  const isOnlyRuntime = tooNew.every(({ path }) => basename(path).startsWith('libonnxruntime'))
  const jetPack = jetPacks.find(({ glibc }) => glibc === system)?.jetPack
  return [
    {
      name: 'c library',
      status: 'fail',
      detail: `glibc ${system}${jetPack === undefined ? '' : `, that of JetPack ${jetPack}`}; ${names}`,
      hint: isOnlyRuntime
        ? 'set ORT_LIB to a libonnxruntime.so that was built on this system (docs/packages.md)'
        : 'use a newer system, or compile the packages on this one from a checkout (scripts/setup; docs/packages.md)',
      code: 'PREREQUISITE_MISSING',
      values,
    },
  ]
}

function findBinaries(library: string | undefined): string[] {
  const folders = createRequire(import.meta.url).resolve.paths('koffi') ?? []
  const found = packages.flatMap((name) => {
    const folder = folders.map((parent) => join(parent, name)).find((path) => existsSync(path))
    return folder === undefined ? [] : binariesIn(folder)
  })
  const own = found.filter((path) => library === undefined || !basename(path).startsWith('libonnxruntime'))
  return library !== undefined && existsSync(library) ? [...own, library] : own
}

const binariesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(node|so(\.\d+)*)$/.test(name))
    .map((name) => join(folder, name))
