/* Which part of the output work-item `place` of a convolution on a CPU makes: of image n rows from `top`
   and columns from `left` on, before `bottom` and `right`, in BANDY x BANDX tiles of TY x TX. (x0, y0)
   is the first pixel of its tiles: those that would reach beyond the edge are moved back. */
#define MY_BAND(place) \
    const i32 tiles_x = (OW + TX - 1) / TX, tiles_y = (OH + TY - 1) / TY; \
    const i32 bands_x = (tiles_x + BANDX - 1) / BANDX, bands_y = (tiles_y + BANDY - 1) / BANDY; \
    const i32 band_x = (place) % bands_x, band_y = (place) / bands_x % bands_y; \
    const i32 n = (place) / (bands_x * bands_y); \
    const i32 left = band_x * BANDX * TX, top = band_y * BANDY * TY; \
    const i32 right = left + BANDX * TX < OW ? left + BANDX * TX : OW; \
    const i32 bottom = top + BANDY * TY < OH ? top + BANDY * TY : OH; \
    const i32 x0 = left < OW - TX ? left : OW - TX, y0 = top < OH - TY ? top : OH - TY;
