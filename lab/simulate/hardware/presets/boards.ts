import type { Board } from '../board.ts'
import { presetNamed } from './preset-named.ts'

const none = { sustained: 1, timeConstantS: 300 }

/**
 * Shares of the data sheet's rates that PyTorch reaches on a Jetson. Compute: HAT's 2,000 tokens through two layers of Vicuna-7B
 * in 0.09 s on an AGX Orin 32GB (§2.3). Memory: Llama-2-7B and 70B in 4 bits at 47 and 5 tokens/s on an AGX Orin 64GB (NVIDIA Jetson
 * AI Lab, benchmarks with MLC). Launches run ahead of the GPU: a layer costs the gaps between its kernels.
 */
const reached = { memory: 0.87, compute: 0.65 }

/**
 * Power modes have the shares of the GPU's greatest clock that NVIDIA's developer guide lists for them; the NX's mode of 25 W gives
 * the power to its CPU.
 *
 * @param sheet `teraflopPerS`: dense, fp16, of the GPU's tensor cores
 */
function jetson(
  name: string,
  sheet: { gibibytes: number; gigabytesPerS: number; teraflopPerS: number; layerMs: number; source: string },
  rest: Pick<Board, 'power' | 'powerModes'>,
): Board {
  const bytesPerS = reached.memory * sheet.gigabytesPerS * 1e9
  return {
    name,
    hardware: {
      name,
      memoryBytes: sheet.gibibytes * 2 ** 30,
      bytesPerS,
      flopPerS: reached.compute * sheet.teraflopPerS * 1e12,
      layerS: sheet.layerMs / 1_000,
      streamS: 0,
      // CPU and GPU have one memory.
      hostBytesPerS: bytesPerS / 2,
      peerBytesPerS: bytesPerS / 2,
      gpus: 1,
      source: sheet.source,
    },
    ...rest,
    // A fan cools the developer kits.
    throttling: none,
    measured: {},
    source: sheet.source,
  }
}

/** A WiFi card of a board while it sends or receives. */
const wifiW = 1

/**
 * A phone's 5G radio while it sends or receives, above the screen: a Galaxy S20 spends 2.35 W at up to 400 Mbit/s, whichever
 * (14,015 seconds of phone-power-5g, a line through them has no slope).
 */
const fiveGW = 2.35

export const boards: readonly Board[] = [
  jetson(
    'agx-orin-64',
    {
      gibibytes: 64,
      gigabytesPerS: 204.8,
      teraflopPerS: 42.5,
      layerMs: 0.1,
      source: 'NVIDIA Jetson AGX Orin 64GB data sheet: 204.8 GB/s, 170 sparse INT8 TOPS of the GPU, 15–60 W',
    },
    {
      power: { idleW: 9, computeW: 35, radioW: wifiW },
      powerModes: [
        { name: 'MAXN', speed: 1 },
        { name: '50W', speed: 0.63 },
        { name: '30W', speed: 0.48 },
        { name: '15W', speed: 0.32 },
      ],
    },
  ),
  jetson(
    'agx-orin-32',
    {
      gibibytes: 32,
      gigabytesPerS: 204.8,
      teraflopPerS: 27,
      layerMs: 0.1,
      source: 'NVIDIA Jetson AGX Orin 32GB data sheet: 204.8 GB/s, 108 sparse INT8 TOPS of the GPU, 15–40 W',
    },
    {
      power: { idleW: 9, computeW: 25, radioW: wifiW },
      powerModes: [
        { name: 'MAXN', speed: 1 },
        { name: '30W', speed: 0.67 },
        { name: '15W', speed: 0.45 },
      ],
    },
  ),
  jetson(
    'agx-xavier',
    {
      gibibytes: 32,
      gigabytesPerS: 136.5,
      teraflopPerS: 11,
      layerMs: 0.2,
      source: 'NVIDIA Jetson AGX Xavier data sheet: 136.5 GB/s, 22 dense INT8 TOPS of the GPU, 10–30 W',
    },
    {
      power: { idleW: 7, computeW: 20, radioW: wifiW },
      powerModes: [
        { name: 'MAXN', speed: 1 },
        { name: '30W', speed: 0.65 },
        { name: '15W', speed: 0.49 },
        { name: '10W', speed: 0.38 },
      ],
    },
  ),
  jetson(
    'orin-nx',
    {
      gibibytes: 16,
      gigabytesPerS: 102.4,
      teraflopPerS: 15,
      layerMs: 0.15,
      source: 'NVIDIA Jetson Orin NX 16GB data sheet: 102.4 GB/s, 60 sparse INT8 TOPS of the GPU, 10–25 W',
    },
    {
      power: { idleW: 5, computeW: 15, radioW: wifiW },
      powerModes: [
        { name: 'MAXN', speed: 1 },
        { name: '25W', speed: 0.44 },
        { name: '15W', speed: 0.67 },
        { name: '10W', speed: 0.67 },
      ],
    },
  ),
  jetson(
    'orin-nano',
    {
      gibibytes: 8,
      gigabytesPerS: 68,
      teraflopPerS: 10,
      layerMs: 0.15,
      source: 'NVIDIA Jetson Orin Nano 8GB data sheet: 68 GB/s, 40 sparse INT8 TOPS of the GPU, 7–15 W',
    },
    {
      power: { idleW: 4, computeW: 8, radioW: wifiW },
      powerModes: [
        { name: '15W', speed: 1 },
        { name: '7W', speed: 0.65 },
      ],
    },
  ),
  {
    name: 'pixel-7-pro',
    hardware: {
      name: 'pixel-7-pro',
      memoryBytes: 12 * 2 ** 30,
      bytesPerS: 30e9,
      flopPerS: 26e9,
      layerS: 0.1e-3,
      streamS: 0,
      hostBytesPerS: 15e9,
      peerBytesPerS: 15e9,
      gpus: 1,
      source: 'DiSCo §5.1: what Bloom-1.1B reaches on it',
    },
    power: { idleW: 1, computeW: 5, radioW: fiveGW },
    powerModes: [{ name: 'normal', speed: 1 }],
    throttling: { sustained: 0.7, timeConstantS: 120 },
    measured: {
      'bloom-1.1b': { prefillTokensPerS: 31.32, decodeTokensPerS: 13.93 },
      'bloom-560m': { prefillTokensPerS: 51.8, decodeTokensPerS: 20.14 },
    },
    source: 'DiSCo §5.1: rates of Bloom; 12 GB LPDDR5',
  },
  {
    name: 'xiaomi-14',
    hardware: {
      name: 'xiaomi-14',
      memoryBytes: 12 * 2 ** 30,
      bytesPerS: 20e9,
      flopPerS: 31e9,
      layerS: 0.1e-3,
      streamS: 0,
      hostBytesPerS: 10e9,
      peerBytesPerS: 10e9,
      gpus: 1,
      source: 'DiSCo §5.1: what Qwen1.5-0.5B reaches on it',
    },
    power: { idleW: 1, computeW: 6, radioW: fiveGW },
    powerModes: [{ name: 'normal', speed: 1 }],
    throttling: { sustained: 0.7, timeConstantS: 120 },
    measured: { 'qwen1.5-0.5b': { prefillTokensPerS: 79.9, decodeTokensPerS: 21.47 } },
    source: 'DiSCo §5.1: rates of Qwen1.5-0.5B; 12 GB LPDDR5X',
  },
]

/** @throws BrimError USAGE */
export const boardNamed = (name: string): Board => presetNamed(boards, 'board', name)
