/** NVIDIA's names for releases, by the L4T versions that begin so; the longest that fits counts. */
const jetpacks: Readonly<Record<string, string>> = {
  '32.7': '4.6',
  '35': '5',
  '36.3': '6.0',
  '36.4.0': '6.1',
  '36.4.3': '6.2',
  '36.4.4': '6.2.1',
  '36.4.7': '6.2.1',
  '36.5.0': '6.2.2',
  '38.2': '7.0',
  '38.4': '7.1',
  '39.0': '7.2',
  '39.2': '7.2',
}

/** By NVIDIA's part number of the module. */
const modules: Readonly<Record<string, string>> = {
  '3448': 'Nano',
  '3668': 'Xavier NX',
  '2888': 'AGX Xavier',
  '3701': 'AGX Orin',
  '3767': 'Orin NX/Nano',
  '3834': 'Thor',
}

/**
 * The first line of /etc/nv_tegra_release, "# R36 (release), REVISION: 4.3, …" → "36.4.3". Its BOARD field is wrong on
 * many boards and not read.
 */
export function parseTegraRelease(text: string): string | undefined {
  const [, release, revision] = /^#\s*R(\d+)\s*\(release\),\s*REVISION:\s*(\d+(?:\.\d+)*)/.exec(text) ?? []
  return release === undefined ? undefined : `${release}.${revision}`
}

/** What dpkg says of nvidia-l4t-core: "Version: 36.4.3-20250107174145" → "36.4.3". */
export function parseCoreVersion(text: string): string | undefined {
  return /^Version:\s*(\d+\.\d+(?:\.\d+)*)/m.exec(text)?.[1]
}

/** @returns undefined for a release that we do not know: the L4T version says it all the same */
export function jetpackOf(l4t: string): string | undefined {
  const fits = Object.keys(jetpacks).filter((version) => l4t === version || l4t.startsWith(`${version}.`))
  const [longest] = fits.sort((a, b) => b.length - a.length)
  return longest === undefined ? undefined : jetpacks[longest]
}

/** The system on chip in the device tree's `compatible`: NUL-separated, from the board to the chip. */
export function socOf(compatible: string): string | undefined {
  return /\btegra\d+\b/.exec(compatible.split('\0').filter(Boolean).at(-1) ?? '')?.[0]
}

/**
 * @param boards all that the device tree says of part numbers: compatible, nvidia,boardids, nvidia,dtsfilename
 * @param model its name: p3767 is an Orin NX as well as an Orin Nano
 */
export function moduleOf(boards: string, model: string): string | undefined {
  const number = new RegExp(`(?<!\\d)(${Object.keys(modules).join('|')})(?!\\d)`).exec(boards)?.[1]
  const name = number === undefined ? undefined : modules[number]
  return name === 'Orin NX/Nano' ? (/\bOrin (?:NX|Nano)\b/.exec(model)?.[0] ?? name) : name
}

/** `nvpmodel -q`: "NV Power Mode: MAXN", then its number. */
export function parsePowerMode(text: string): string | undefined {
  return /^\s*NV Power Mode\s*:\s*(\S.*?)\s*$/m.exec(text)?.[1]
}
