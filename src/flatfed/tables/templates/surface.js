// Draws the loss surfaces of one figure on canvases that turn together. Needs no library and no network.
(() => {
  const root = document.currentScript.parentElement;
  const data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
  const start = { turn: -0.56, tilt: 0.44, zoom: 1 };
  const view = { ...start };
  const [low, high] = data.limits;
  const tall = 0.75; // height of the box, its base being 1 x 1
  const light = [-0.36, -0.44, 0.82];
  const shown = [true, true]; // the first, the second surface of a panel

  const project = (x, y, z) => { // box coordinates, each centred on 0, to the plane of the screen and a depth
    const [c, s, e, f] = [Math.cos(view.turn), Math.sin(view.turn), Math.cos(view.tilt), Math.sin(view.tilt)];
    const [u, v] = [c * x - s * y, s * x + c * y];
    const depth = v * e - z * f;
    const near = 3.2 / (3.2 + depth);
    return [u * near, -(z * e + v * f) * near, depth];
  };
  const height = (z) => ((Math.min(z, high) - low) / (high - low) - 0.5) * tall;
  const colour = (z) => {
    const part = Math.sqrt(Math.max(0, Math.min(1, (z - low) / (high - low))));
    return data.colours[Math.round(part * (data.colours.length - 1))];
  };

  // Cells of a sheet, every `step` points: corners as places in the grid; none with a missing or a cut corner.
  const cells = (sheet, step) => {
    const last = sheet.n - 1, keep = [];
    for (let i = 0; i < last; i += step) keep.push(i);
    keep.push(last);
    const found = [];
    for (let i = 0; i + 1 < keep.length; i++) for (let j = 0; j + 1 < keep.length; j++) {
      const [a, b, c, d] = [keep[i], keep[i + 1], keep[j], keep[j + 1]];
      const corners = [[a, c], [b, c], [b, d], [a, d]].map(([p, q]) => p * sheet.n + q);
      const values = corners.map((corner) => sheet.z[corner]);
      if (values.every((value) => value !== null) && Math.min(...values) < high) found.push(corners);
    }
    return found;
  };

  const panel = (spec, canvas, output) => {
    const pen = canvas.getContext("2d");
    const place = (sheet, k) => [Math.floor(k / sheet.n) / (sheet.n - 1) - 0.5, (k % sheet.n) / (sheet.n - 1) - 0.5];
    spec.sheets.forEach((sheet, number) => {
      sheet.mesh = number > 0;
      sheet.cells = cells(sheet, sheet.mesh ? Math.max(1, Math.ceil((sheet.n - 1) / 25)) : 1);
      sheet.lit = sheet.cells.map(([a, b, c, d]) => {
        const p = [a, b, c, d].map((k) => [...place(sheet, k), height(sheet.z[k])]);
        const [u, v] = [[0, 1, 2].map((i) => p[2][i] - p[0][i]), [0, 1, 2].map((i) => p[3][i] - p[1][i])];
        const n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
        const dot = Math.abs(n[0] * light[0] + n[1] * light[1] + n[2] * light[2]) / (Math.hypot(...n) || 1);
        const base = colour([a, b, c, d].reduce((sum, k) => sum + Math.min(sheet.z[k], high), 0) / 4);
        return `rgb(${base.map((value) => Math.round(value * (0.72 + 0.28 * dot)))})`;
      });
    });
    let points = [];

    const draw = () => {
      const scale = window.devicePixelRatio || 1;
      const [wide, deep] = [canvas.clientWidth, canvas.clientHeight];
      canvas.width = wide * scale;
      canvas.height = deep * scale;
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      const size = Math.min(wide * 0.54, deep * 0.64) * view.zoom;
      const at = (x, y, z) => {
        const [u, v, depth] = project(x, y, z);
        return [wide / 2 + u * size, deep * 0.47 + v * size, depth];
      };
      const style = getComputedStyle(root);
      const [text, hair] = [style.getPropertyValue("--text"), style.getPropertyValue("--hair")];
      frame(at, pen, text, hair, spec.range);
      points = [];
      const faces = [];
      spec.sheets.forEach((sheet, number) => {
        if (!shown[number]) return;
        const corners = sheet.z.map((z, k) => (z === null ? null : at(...place(sheet, k), height(z))));
        corners.forEach((corner, k) => corner && sheet.z[k] <= high && points.push([corner, sheet, k]));
        sheet.cells.forEach((cell, k) => {
          const four = cell.map((corner) => corners[corner]);
          faces.push([four.reduce((sum, corner) => sum + corner[2], 0), four, sheet.mesh ? null : sheet.lit[k]]);
        });
      });
      faces.sort((one, other) => other[0] - one[0]);
      for (const [, four, fill] of faces) {
        pen.beginPath();
        four.forEach(([u, v], k) => (k ? pen.lineTo(u, v) : pen.moveTo(u, v)));
        pen.closePath();
        pen.lineWidth = fill ? 0.6 : 0.8;
        pen.strokeStyle = fill || text;
        if (fill) { pen.fillStyle = fill; pen.fill(); }
        pen.stroke();
      }
    };

    const look = (u, v) => {
      let best = null, least = 16 ** 2;
      for (const [corner, sheet, k] of points) {
        const gap = (corner[0] - u) ** 2 + (corner[1] - v) ** 2 + corner[2]; // of two alike the one in front
        if (gap < least) [best, least] = [[sheet, k], gap];
      }
      if (!best) return (output.textContent = spec.said);
      const [sheet, k] = best, along = (part) => (spec.range * 2 * part).toFixed(2);
      const [x, y] = place(sheet, k).map(along);
      output.textContent = `${sheet.label}: ${data.quantity} ${sheet.z[k].toPrecision(4)} at x = ${x}, y = ${y}`;
    };
    return { draw, look };
  };

  // The box: floor, the two walls behind, ticks on three edges.
  const frame = (at, pen, text, hair, range) => {
    const [c, s] = [Math.cos(view.turn), Math.sin(view.turn)];
    const [backX, backY] = [s > 0 ? 0.5 : -0.5, c > 0 ? 0.5 : -0.5];
    const stroke = (...way) => {
      pen.beginPath();
      way.forEach((point, k) => { const [u, v] = at(...point); k ? pen.lineTo(u, v) : pen.moveTo(u, v); });
      pen.stroke();
    };
    pen.strokeStyle = hair;
    pen.lineWidth = 1;
    for (const part of [-0.5, -0.25, 0, 0.25, 0.5]) {
      stroke([part, backY, tall / 2], [part, backY, -tall / 2], [part, -backY, -tall / 2]);
      stroke([backX, part, tall / 2], [backX, part, -tall / 2], [-backX, part, -tall / 2]);
    }
    for (const z of data.ticks) stroke([backX, -backY, height(z)], [backX, backY, height(z)], [-backX, backY, height(z)]);
    pen.fillStyle = text;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const write = (words, ...point) => { const [u, v] = at(...point); pen.fillText(words, u, v); };
    for (const part of [-0.5, 0, 0.5]) {
      write(`${part ? "" : "x = "}${+(2 * part * range).toPrecision(3)}`, part, -backY * 1.2, -tall / 2);
      write(`${part ? "" : "y = "}${+(2 * part * range).toPrecision(3)}`, -backX * 1.2, part, -tall / 2);
    }
    // Heights stand at the edge of the box that is leftmost or rightmost on the screen: there nothing hides them.
    const edge = Math.abs(at(backX, -backY, 0)[0] - at(0, 0, 0)[0]) > 1 ? [backX, -backY] : [-backX, backY];
    for (const z of data.ticks) write(`${+z.toPrecision(3)}`, edge[0] * 1.13, edge[1] * 1.13, height(z));
    pen.textAlign = "left";
    pen.fillText(data.quantity, 2, 8);
  };

  const panels = [...root.querySelectorAll("canvas")].map((canvas) => {
    const output = canvas.parentElement.querySelector("output");
    return { canvas, ...panel(data.panels[+canvas.dataset.panel], canvas, output) };
  });
  let waiting = false;
  const draw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; panels.forEach((one) => one.draw()); });
  };
  const move = (turn, tilt, zoom = 1) => {
    view.turn += turn;
    view.tilt = Math.max(-0.2, Math.min(1.57, view.tilt + tilt));
    view.zoom = Math.max(0.5, Math.min(4, view.zoom * zoom));
    draw();
  };
  const keys = {
    ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1], "+": [0, 0, 1.15], "-": [0, 0, 1 / 1.15],
  };
  for (const { canvas, look } of panels) {
    canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) move(-event.movementX / 150, event.movementY / 150);
      else look(event.offsetX, event.offsetY);
    });
    canvas.addEventListener("keydown", (event) => {
      if (!keys[event.key]) return;
      event.preventDefault();
      move(...keys[event.key]);
    });
  }
  root.querySelector("button").addEventListener("click", () => { Object.assign(view, start); draw(); });
  root.querySelectorAll("input").forEach((box, number) => box.addEventListener("change", () => {
    shown[number] = box.checked;
    draw();
  }));
  new ResizeObserver(draw).observe(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
