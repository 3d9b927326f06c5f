import { type BinaryNeeds, compareSymbolVersions } from './elf.ts'

/** NVIDIA's releases for Jetsons, the oldest first, with the C and C++ library of the Ubuntu below them. */
export const jetPacks = [
  { jetPack: '4', glibc: '2.27', glibcxx: '3.4.25' },
  { jetPack: '5', glibc: '2.31', glibcxx: '3.4.28' },
  { jetPack: '6', glibc: '2.35', glibcxx: '3.4.30' },
  { jetPack: '7', glibc: '2.39', glibcxx: '3.4.33' },
] as const

type LibraryVersions = Pick<BinaryNeeds, 'glibc' | 'glibcxx'>

/** The highest versions that any of them needs: what a system must have to load them all. */
export function neededByAll(binaries: readonly LibraryVersions[]): LibraryVersions {
  const highest = (library: keyof LibraryVersions) =>
    binaries
      .flatMap((binary) => binary[library] ?? [])
      .sort(compareSymbolVersions)
      .at(-1)
  const [glibc, glibcxx] = [highest('glibc'), highest('glibcxx')]
  return { ...(glibc === undefined ? {} : { glibc }), ...(glibcxx === undefined ? {} : { glibcxx }) }
}

/** @returns the JetPack releases that can load such a binary */
export const jetPacksFor = (needs: LibraryVersions): string[] =>
  jetPacks.filter((system) => canLoad(needs, system)).map(({ jetPack }) => jetPack)

/** @param system what it has; a version that is not known is taken as high enough */
export const canLoad = (needs: LibraryVersions, system: LibraryVersions): boolean =>
  (['glibc', 'glibcxx'] as const).every((library) => {
    const [need, has] = [needs[library], system[library]]
    return need === undefined || has === undefined || compareSymbolVersions(need, has) <= 0
  })

/** @returns undefined on a system without the GNU C library */
export function runningGlibc(): string | undefined {
  const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } }
  return header.glibcVersionRuntime
}
