/** JetPack releases by prefix of the L4T version; the longest match counts. */
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

/** Modules by NVIDIA's part number. */
const modules: Readonly<Record<string, string>> = {
  '3448': 'Nano',
  '3668': 'Xavier NX',
  '2888': 'AGX Xavier',
  '3701': 'AGX Orin',
  '3767': 'Orin NX/Nano',
  '3834': 'Thor',
}

/**
 * Parses the first line of /etc/nv_tegra_release, "# R36 (release), REVISION: 4.3, …" → "36.4.3". The BOARD field is
 * ignored: it is wrong on many boards.
 */
export function parseTegraRelease(text: string): string | undefined {
  const [, release, revision] = /^#\s*R(\d+)\s*\(release\),\s*REVISION:\s*(\d+(?:\.\d+)*)/.exec(text) ?? []
  return release === undefined ? undefined : `${release}.${revision}`
}

/** Parses dpkg's output about nvidia-l4t-core: "Version: 36.4.3-20250107174145" → "36.4.3". */
export function parseCoreVersion(text: string): string | undefined {
  return /^Version:\s*(\d+\.\d+(?:\.\d+)*)/m.exec(text)?.[1]
}

/** @returns undefined for an unknown release; the L4T version is reported anyway */
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
 * @param boards part numbers in the device tree: compatible, nvidia,boardids, nvidia,dtsfilename
 * @param model name of the board: p3767 is an Orin NX or an Orin Nano
 */
export function moduleOf(boards: string, model: string): string | undefined {
  const number = new RegExp(`(?<!\\d)(${Object.keys(modules).join('|')})(?!\\d)`).exec(boards)?.[1]
  const name = number === undefined ? undefined : modules[number]
  return name === 'Orin NX/Nano' ? (/\bOrin (?:NX|Nano)\b/.exec(model)?.[0] ?? name) : name
}

/** Parses the output of `nvpmodel -q`: "NV Power Mode: MAXN", then its number. */
export function parsePowerMode(text: string): string | undefined {
  return /^\s*NV Power Mode\s*:\s*(\S.*?)\s*$/m.exec(text)?.[1]
}
