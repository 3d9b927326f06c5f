import { closeSync, openSync, readSync } from 'node:fs'

/** What a binary asks of the system that loads it. */
export interface BinaryNeeds {
  readonly arch: 'x64' | 'arm64' | 'other'
  /** Highest version of the C library's symbols, `2.28`; absent where it asks for none. */
  readonly glibc?: string
  /** Highest version of the C++ library's symbols, `3.4.22`; absent where it asks for none. */
  readonly glibcxx?: string
}

/** e_machine */
const machines: Readonly<Record<number, 'x64' | 'arm64'>> = { 62: 'x64', 183: 'arm64' }
/** SHT_GNU_verneed: the versions of symbols that an object needs, by library. */
const versionsNeeded = 0x6ffffffe
const elfHeaderBytes = 64
const sectionHeaderBytes = 64

/**
 * Reads the versions of symbols that an executable or library needs (System V ABI; Linux Standard Base, "Symbol Versioning").
 * @returns undefined where the file is no 64-bit little-endian ELF file
 * @throws Error where the file cannot be read or is damaged
 */
export function readBinaryNeeds(path: string): BinaryNeeds | undefined {
  const file = openSync(path, 'r')
  try {
    const header = readAt(file, 0, elfHeaderBytes)
    if (header.length < elfHeaderBytes || header.toString('latin1', 0, 6) !== '\x7fELF\x02\x01') return undefined
    const arch = machines[header.readUInt16LE(18)] ?? 'other'
    const sections = readSections(file, header)
    const names = sections.flatMap((section) =>
      section.type === versionsNeeded
        ? versionNames(readAt(file, section.offset, section.bytes), readSection(file, sections[section.link]))
        : [],
    )
    const glibc = highestVersion(names, 'GLIBC_')
    const glibcxx = highestVersion(names, 'GLIBCXX_')
    return { arch, ...(glibc === undefined ? {} : { glibc }), ...(glibcxx === undefined ? {} : { glibcxx }) }
  } finally {
    closeSync(file)
  }
}

/** Negative where `a` is the older one: 2.4 is older than 2.28. */
export function compareSymbolVersions(a: string, b: string): number {
  const [left, right] = [a.split('.').map(Number), b.split('.').map(Number)]
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const difference = (left[at] ?? 0) - (right[at] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

interface Section {
  readonly type: number
  readonly offset: number
  readonly bytes: number
  /** Index of the section with its strings. */
  readonly link: number
}

function readSections(file: number, header: Buffer): Section[] {
  const count = header.readUInt16LE(60)
  const table = readAt(file, Number(header.readBigUInt64LE(40)), count * sectionHeaderBytes)
  return Array.from({ length: count }, (_, at) => {
    const section = table.subarray(at * sectionHeaderBytes)
    return {
      type: section.readUInt32LE(4),
      offset: Number(section.readBigUInt64LE(24)),
      bytes: Number(section.readBigUInt64LE(32)),
      link: section.readUInt32LE(40),
    }
  })
}

const readSection = (file: number, section: Section | undefined) =>
  section ? readAt(file, section.offset, section.bytes) : Buffer.alloc(0)

/** The names in a chain of Elf64_Verneed, each with its chain of Elf64_Vernaux. */
function versionNames(needs: Buffer, strings: Buffer): string[] {
  const names: string[] = []
  for (let at = 0, next = -1; next !== 0; at += next) {
    for (let entry = at + needs.readUInt32LE(at + 8), left = needs.readUInt16LE(at + 2); left > 0; left--) {
      const name = needs.readUInt32LE(entry + 8)
      names.push(strings.toString('latin1', name, strings.indexOf(0, name)))
      entry += needs.readUInt32LE(entry + 12)
    }
    next = needs.readUInt32LE(at + 12)
  }
  return names
}

function highestVersion(names: readonly string[], prefix: string): string | undefined {
  const versions = names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))
  return versions
    .filter((version) => /^[\d.]+$/.test(version))
    .sort(compareSymbolVersions)
    .at(-1)
}

function readAt(file: number, offset: number, bytes: number): Buffer {
  const buffer = Buffer.alloc(bytes)
  return buffer.subarray(0, readSync(file, buffer, 0, bytes, offset))
}
